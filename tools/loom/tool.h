/* The command-line tool: one file cmd_<command>.c and one line in the table of main.c for each command. */
#ifndef TOOL_H
#define TOOL_H

/* Exit codes. */
enum { TOOL_OK = 0, TOOL_FAILED = 1, TOOL_WRONG_USE = 2 };

typedef struct tool_command {
    const char *name;
    const char *arguments; /* as help shows them */
    const char *summary;
    const char *details;               /* for `loom help COMMAND`: whole lines, or "" */
    int (*run)(int argc, char **argv); /* gets the arguments after the command's name, returns the exit code */
    void (*print_more)(void);          /* prints help after the details; NULL: none */
} tool_command;

extern const tool_command tool_tour;
extern const tool_command tool_doctor;
extern const tool_command tool_bench;
extern const tool_command tool_info;
extern const tool_command tool_check;

/* Prints the engines of the list of cases, and their types. */
void tool_print_engines(void);

/* Both print "loom: " and the sentence to stderr, and return the exit code. */
__attribute__((format(printf, 1, 2))) int tool_failed(const char *format, ...);
__attribute__((format(printf, 1, 2))) int tool_wrong_use(const char *format, ...);

#endif
