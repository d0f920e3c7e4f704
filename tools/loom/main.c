#include "table_cases.h"
#include "tool.h"

#include <loom/loom.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static int run_help(int argc, char **argv);
static int run_version(int argc, char **argv);

static const tool_command tool_version = {
    "version", "", "the versions of the tool and of the library; also --version and -V", "", run_version, NULL};
static const tool_command tool_help = {"help", "[COMMAND]", "this list, or how to use a command", "", run_help, NULL};

static const tool_command *const commands[] = {&tool_tour,  &tool_doctor,  &tool_bench, &tool_info,
                                               &tool_check, &tool_version, &tool_help};

static const tool_command *find_command(const char *name)
{
    if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0)
        return &tool_help;
    if (strcmp(name, "--version") == 0 || strcmp(name, "-V") == 0)
        return &tool_version;
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
        if (strcmp(name, commands[i]->name) == 0)
            return commands[i];
    }
    return NULL;
}

static int print_sentence(int code, const char *format, va_list arguments)
{
    fputs("loom: ", stderr);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    return code;
}

int tool_failed(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    const int code = print_sentence(TOOL_FAILED, format, arguments);
    va_end(arguments);
    return code;
}

int tool_wrong_use(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    const int code = print_sentence(TOOL_WRONG_USE, format, arguments);
    va_end(arguments);
    return code;
}

void tool_print_engines(void)
{
    const table_case *table;
    printf("\nEngines:\n");
    for (size_t i = 0; (table = table_case_at(i)) != NULL; i++) {
        printf("  %-12s", table->name);
        for (const table_form *form = table->forms; form->type; form++) {
            if (form == table->forms || form->type != form[-1].type)
                printf("%s%ss", form == table->forms ? "" : ", ", table_type_name(form->type));
        }
        printf("\n");
    }
}

static int help_with(const tool_command *command)
{
    printf("loom %s %s\n  %s\n", command->name, command->arguments, command->summary);
    if (command->details[0])
        printf("\n%s", command->details);
    if (command->print_more)
        command->print_more();
    return TOOL_OK;
}

static int run_help(int argc, char **argv)
{
    if (argc > 1)
        return tool_wrong_use("help takes the name of one command.");
    if (argc == 1) {
        const tool_command *command = find_command(argv[0]);
        if (!command)
            return tool_wrong_use("There is no command \"%s\"; `loom help` lists the commands.", argv[0]);
        return help_with(command);
    }
    printf("loom: the command-line tool of hashloom\n\n");
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++)
        printf("  %-8s %-20s %s\n", commands[i]->name, commands[i]->arguments, commands[i]->summary);
    printf("\nExit codes: 0 done; 1 something was wrong or could not be done; 2 the arguments make no sense.\n");
    return TOOL_OK;
}

static int run_version(int argc, char **argv)
{
    const unsigned running = loom_version();
    (void)argv;
    if (argc > 0)
        return tool_wrong_use("version takes no arguments.");
    printf("loom %d.%d.%d, library %u.%u.%u\n", LOOM_VERSION_MAJOR, LOOM_VERSION_MINOR, LOOM_VERSION_PATCH,
           running / 10000, running / 100 % 100, running % 100);
    return TOOL_OK;
}

int main(int argc, char **argv)
{
    if (argc < 2)
        return tool_wrong_use("Name a command; `loom help` lists them.");
    const tool_command *command = find_command(argv[1]);
    if (!command)
        return tool_wrong_use("There is no command \"%s\"; `loom help` lists the commands.", argv[1]);
    for (int i = 2; i < argc; i++) {
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0)
            return help_with(command);
    }
    return command->run(argc - 2, argv + 2);
}
