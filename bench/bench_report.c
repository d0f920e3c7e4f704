#include "bench_report.h"

#include "bench_progress.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

/* RATE: a real number that may be very small, with as many digits as others have decimals. COUNT_FROM_0: a count in
 * which 0 has a meaning. */
typedef enum column_kind { TEXT_POINTER, TEXT_ARRAY, COUNT, COUNT_FROM_0, REAL, RATE } column_kind;

/* Which rows print the column. The files have all columns. */
typedef enum column_place { ALL, NO_FILTERS, FILTERS } column_place;

/* In the order and with the names of the files: scripts depend on both. */
static const struct column {
    const char *name;
    column_kind kind;
    size_t offset;
    const char *title; /* in the printed table; NULL: not printed */
    int width, decimals;
    column_place place;
} columns[] = {
    {"case", TEXT_POINTER, offsetof(bench_row, case_name), "case", 7, 0, ALL},
    {"engine", TEXT_POINTER, offsetof(bench_row, engine), "engine", 7, 0, ALL},
    {"machine", TEXT_POINTER, offsetof(bench_row, machine), "machine", 7, 0, ALL},
    {"op", TEXT_ARRAY, offsetof(bench_row, op), "op", 15, 0, ALL},
    {"key_bytes", COUNT, offsetof(bench_row, key_bytes), "key", 3, 0, ALL},
    {"value_bytes", COUNT, offsetof(bench_row, value_bytes), "value", 5, 0, NO_FILTERS},
    {"n", COUNT, offsetof(bench_row, n), "n", 10, 0, ALL},
    {"load", REAL, offsetof(bench_row, load), "load", 5, 3, NO_FILTERS},
    {"hit", REAL, offsetof(bench_row, hit), "hit %", 5, 1, ALL},
    {"skew", REAL, offsetof(bench_row, skew), "skew", 4, 2, NO_FILTERS},
    {"batch", COUNT, offsetof(bench_row, batch), "batch", 10, 0, ALL},
    {"mops", REAL, offsetof(bench_row, mops), "M ops/s", 8, 2, ALL},
    {"gbps", REAL, offsetof(bench_row, gbps), "GB/s", 7, 2, ALL},
    {"accesses", REAL, offsetof(bench_row, accesses), "accesses", 8, 3, NO_FILTERS},
    {"limit", REAL, offsetof(bench_row, limit), "limit", 8, 2, ALL},
    {"share", REAL, offsetof(bench_row, share), "share", 5, 3, ALL},
    {"check", TEXT_ARRAY, offsetof(bench_row, check), "check", 5, 0, ALL},
    {"limit_name", TEXT_ARRAY, offsetof(bench_row, limit_name), "limit name", 14, 0, ALL},
    {"hot", REAL, offsetof(bench_row, hot), NULL, 0, 0, ALL},
    {"bits_per_key", REAL, offsetof(bench_row, bits_per_key), "bits/key", 8, 2, FILTERS},
    {"probes", COUNT, offsetof(bench_row, probes), "probes", 6, 0, FILTERS},
    {"fp_measured", RATE, offsetof(bench_row, fp_measured), "fp meas.", 9, 4, FILTERS},
    {"fp_theory", RATE, offsetof(bench_row, fp_theory), "fp theory", 9, 4, FILTERS},
    {"fp_stats", RATE, offsetof(bench_row, fp_stats), "fp stats", 9, 4, FILTERS},
    {"refused", COUNT_FROM_0, offsetof(bench_row, refused), NULL, 0, 0, NO_FILTERS},
    {"code_bytes", COUNT_FROM_0, offsetof(bench_row, code_bytes), NULL, 0, 0, NO_FILTERS},
    {"stashed", COUNT_FROM_0, offsetof(bench_row, stashed), NULL, 0, 0, NO_FILTERS},
    {"lanes", COUNT, offsetof(bench_row, lanes), NULL, 0, 0, NO_FILTERS},
    {"figure", TEXT_POINTER, offsetof(bench_row, figure), NULL, 0, 0, NO_FILTERS},
    {"core_share", REAL, offsetof(bench_row, core_share), NULL, 0, 0, ALL},
    {"from", REAL, offsetof(bench_row, from), NULL, 0, 0, NO_FILTERS},
    {"callers", COUNT, offsetof(bench_row, callers), NULL, 0, 0, NO_FILTERS},
    {"median_us", REAL, offsetof(bench_row, median_us), NULL, 0, 0, NO_FILTERS},
    {"p99_us", REAL, offsetof(bench_row, p99_us), NULL, 0, 0, NO_FILTERS},
    {"longest_us", REAL, offsetof(bench_row, longest_us), NULL, 0, 0, NO_FILTERS},
    {"values_per_key", REAL, offsetof(bench_row, values_per_key), NULL, 0, 0, NO_FILTERS},
    {"density", REAL, offsetof(bench_row, density), NULL, 0, 0, NO_FILTERS},
    {"drawn", TEXT_POINTER, offsetof(bench_row, drawn), NULL, 0, 0, NO_FILTERS},
    {"first_bucket", COUNT, offsetof(bench_row, first_bucket), NULL, 0, 0, NO_FILTERS},
    {"bucket_growth", REAL, offsetof(bench_row, bucket_growth), NULL, 0, 0, NO_FILTERS},
    {"bytes_per_entry", REAL, offsetof(bench_row, bytes_per_entry), NULL, 0, 0, NO_FILTERS},
    {"groups", COUNT, offsetof(bench_row, groups), NULL, 0, 0, NO_FILTERS},
    {"call_us", REAL, offsetof(bench_row, call_us), NULL, 0, 0, NO_FILTERS},
    {"ticket_bits", COUNT, offsetof(bench_row, ticket_bits), NULL, 0, 0, NO_FILTERS},
    {"row_place", TEXT_POINTER, offsetof(bench_row, row_place), NULL, 0, 0, NO_FILTERS},
};

#define COLUMN_COUNT (sizeof columns / sizeof *columns)

bench_row bench_row_new(const char *case_name, const char *machine, const char *op)
{
    bench_row row = {.case_name = case_name,
                     .machine = machine,
                     .load = NAN,
                     .hit = NAN,
                     .skew = NAN,
                     .mops = NAN,
                     .gbps = NAN,
                     .accesses = NAN,
                     .limit = NAN,
                     .share = NAN,
                     .hot = NAN,
                     .bits_per_key = NAN,
                     .fp_measured = NAN,
                     .fp_theory = NAN,
                     .fp_stats = NAN,
                     .refused = BENCH_NO_COUNT,
                     .code_bytes = BENCH_NO_COUNT,
                     .stashed = BENCH_NO_COUNT,
                     .core_share = NAN,
                     .from = NAN,
                     .median_us = NAN,
                     .p99_us = NAN,
                     .longest_us = NAN,
                     .values_per_key = NAN,
                     .density = NAN,
                     .bucket_growth = NAN,
                     .bytes_per_entry = NAN,
                     .call_us = NAN,
                     .check = "ok"};
    snprintf(row.op, sizeof row.op, "%s", op);
    return row;
}

void bench_row_fail(bench_row *row, const char *format, ...)
{
    va_list arguments;
    if (bench_row_failed(row))
        return;
    const int prefix = snprintf(row->check, sizeof row->check, "FAIL: ");
    va_start(arguments, format);
    vsnprintf(row->check + prefix, sizeof row->check - (size_t)prefix, format, arguments);
    va_end(arguments);
}

bool bench_row_failed(const bench_row *row)
{
    return strncmp(row->check, "FAIL", 4) == 0;
}

void bench_row_note(bench_row *row, const char *format, ...)
{
    va_list arguments;
    size_t used = strlen(row->note);
    if (used > 0)
        used += (size_t)snprintf(row->note + used, sizeof row->note - used, "; ");
    if (used >= sizeof row->note)
        return;
    va_start(arguments, format);
    vsnprintf(row->note + used, sizeof row->note - used, format, arguments);
    va_end(arguments);
}

static const char *text_of(const struct column *column, const bench_row *row)
{
    const char *at = (const char *)row + column->offset;
    const char *text = column->kind == TEXT_POINTER ? *(const char *const *)(const void *)at : at;
    return text ? text : "";
}

/* A number as text; "" where the column is empty. */
static void format_number(const struct column *column, const bench_row *row, int decimals, char text[32])
{
    const void *at = (const char *)row + column->offset;
    text[0] = 0;
    const bool counts = column->kind == COUNT || column->kind == COUNT_FROM_0;
    if (counts && *(const uint64_t *)at != (column->kind == COUNT ? 0 : BENCH_NO_COUNT))
        snprintf(text, 32, "%llu", (unsigned long long)*(const uint64_t *)at);
    if (column->kind == REAL && !isnan(*(const double *)at))
        snprintf(text, 32, "%.*f", decimals, *(const double *)at);
    if (column->kind == RATE && !isnan(*(const double *)at))
        snprintf(text, 32, "%.*g", decimals, *(const double *)at);
}

static bool is_text(const struct column *column)
{
    return column->kind == TEXT_POINTER || column->kind == TEXT_ARRAY;
}

static void write_csv_text(FILE *file, const char *text)
{
    if (!strpbrk(text, ",\"\n\r")) {
        fputs(text, file);
        return;
    }
    fputc('"', file);
    for (; *text; text++) {
        if (*text == '"')
            fputc('"', file);
        fputc(*text, file);
    }
    fputc('"', file);
}

static void write_json_text(FILE *file, const char *text)
{
    fputc('"', file);
    for (; *text; text++) {
        if (*text == '"' || *text == '\\')
            fputc('\\', file);
        if ((unsigned char)*text < 0x20)
            fprintf(file, "\\u%04x", (unsigned)*text);
        else
            fputc(*text, file);
    }
    fputc('"', file);
}

/* Files keep more digits than the table shows. */
enum { FILE_DECIMALS = 4, FILE_RATE_DIGITS = 6 };

static int file_decimals(const struct column *column)
{
    return column->kind == RATE ? FILE_RATE_DIGITS : FILE_DECIMALS;
}

static void write_csv_row(FILE *file, const bench_row *row)
{
    for (size_t i = 0; i < COLUMN_COUNT; i++) {
        char number[32];
        if (i > 0)
            fputc(',', file);
        if (is_text(&columns[i])) {
            write_csv_text(file, text_of(&columns[i], row));
            continue;
        }
        format_number(&columns[i], row, file_decimals(&columns[i]), number);
        fputs(number, file);
    }
    fputc('\n', file);
    fflush(file);
}

static void write_json_row(FILE *file, const bench_row *row, bool first)
{
    fputs(first ? "\n  {" : ",\n  {", file);
    for (size_t i = 0; i < COLUMN_COUNT; i++) {
        char number[32];
        fprintf(file, "%s\"%s\": ", i > 0 ? ", " : "", columns[i].name);
        if (is_text(&columns[i]) && text_of(&columns[i], row)[0]) {
            write_json_text(file, text_of(&columns[i], row));
            continue;
        }
        format_number(&columns[i], row, file_decimals(&columns[i]), number);
        fputs(is_text(&columns[i]) || !number[0] ? "null" : number, file);
    }
    fputc('}', file);
    fflush(file);
}

static bool is_shown(const struct column *column, bool of_filter)
{
    return column->title && column->place != (of_filter ? NO_FILTERS : FILTERS);
}

static void print_title(bool of_filter)
{
    for (size_t i = 0; i < COLUMN_COUNT; i++) {
        if (is_shown(&columns[i], of_filter))
            printf(is_text(&columns[i]) ? "%-*s  " : "%*s  ", columns[i].width, columns[i].title);
    }
    printf("\n");
}

static void print_row(const bench_row *row)
{
    for (size_t i = 0; i < COLUMN_COUNT; i++) {
        char number[32];
        if (!is_shown(&columns[i], row->of_filter))
            continue;
        if (is_text(&columns[i])) {
            printf("%-*s  ", columns[i].width, text_of(&columns[i], row));
            continue;
        }
        format_number(&columns[i], row, columns[i].decimals, number);
        printf("%*s  ", columns[i].width, number);
    }
    printf("%s\n", row->note);
    fflush(stdout);
}

static bool open_file(const char *path, FILE **file, char error[256])
{
    *file = path ? fopen(path, "w") : NULL;
    if (!path || *file)
        return true;
    snprintf(error, 256, "%.150s cannot be written: %s.", path, strerror(errno));
    return false;
}

bool bench_report_open(bench_report *report, const char *csv_path, const char *json_path, char error[256])
{
    *report = (bench_report){.csv_path = csv_path, .json_path = json_path};
    if (!open_file(csv_path, &report->csv, error))
        return false;
    if (!open_file(json_path, &report->json, error)) {
        if (report->csv)
            fclose(report->csv);
        return false;
    }
    for (size_t i = 0; report->csv && i < COLUMN_COUNT; i++)
        fprintf(report->csv, "%s%c", columns[i].name, i + 1 < COLUMN_COUNT ? ',' : '\n');
    if (report->json)
        fputc('[', report->json);
    return true;
}

void bench_report_add(bench_report *report, const bench_row *row)
{
    bench_progress_hide();
    if (!report->titled || report->titled_for_filters != row->of_filter)
        print_title(row->of_filter);
    report->titled = true;
    report->titled_for_filters = row->of_filter;
    print_row(row);
    if (report->csv)
        write_csv_row(report->csv, row);
    if (report->json)
        write_json_row(report->json, row, report->rows == 0);
    report->rows++;
    report->failed += bench_row_failed(row);
}

void bench_report_heading(bench_report *report, const char *text)
{
    bench_progress_hide();
    printf("\n%s\n", text);
    report->titled = false;
}

static bool close_file(FILE *file, const char *path, char error[256])
{
    if (!file)
        return true;
    const bool written = !ferror(file);
    if (fclose(file) == 0 && written)
        return true;
    snprintf(error, 256, "%.150s could not be written to its end: %s.", path, strerror(errno));
    return false;
}

bool bench_report_close(bench_report *report, char error[256])
{
    if (report->json)
        fputs("\n]\n", report->json);
    const bool csv_done = close_file(report->csv, report->csv_path, error);
    return close_file(report->json, report->json_path, error) && csv_done;
}
