/* Compiles CUDA C to PTX with the NVRTC library that it is given: compile LIBNVRTC SOURCE.cu OUT.ptx [OPTION...] */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

typedef void *Program;

static void *must(void *library, const char *name) {
    void *found = dlsym(library, name);
    if (!found) {
        fprintf(stderr, "compile: %s is missing\n", name);
        exit(2);
    }
    return found;
}

static char *read_all(const char *path) {
    FILE *file = fopen(path, "rb");
    if (!file) {
        perror(path);
        exit(2);
    }
    fseek(file, 0, SEEK_END);
    long size = ftell(file);
    rewind(file);
    char *text = calloc(1, size + 1);
    if (!text || fread(text, 1, size, file) != (size_t)size) {
        perror(path);
        exit(2);
    }
    fclose(file);
    return text;
}

int main(int argc, char **argv) {
    if (argc < 4) {
        fprintf(stderr, "usage: compile LIBNVRTC SOURCE.cu OUT.ptx [OPTION...]\n");
        return 2;
    }
    void *library = dlopen(argv[1], RTLD_NOW);
    if (!library) {
        fprintf(stderr, "compile: %s\n", dlerror());
        return 3;
    }
    int (*create)(Program *, const char *, const char *, int, const char **, const char **) = must(library, "nvrtcCreateProgram");
    int (*compile)(Program, int, const char **) = must(library, "nvrtcCompileProgram");
    int (*log_size)(Program, size_t *) = must(library, "nvrtcGetProgramLogSize");
    int (*get_log)(Program, char *) = must(library, "nvrtcGetProgramLog");
    int (*ptx_size)(Program, size_t *) = must(library, "nvrtcGetPTXSize");
    int (*get_ptx)(Program, char *) = must(library, "nvrtcGetPTX");

    Program program;
    if (create(&program, read_all(argv[2]), "kernel.cu", 0, NULL, NULL)) return 1;
    int code = compile(program, argc - 4, (const char **)argv + 4);
    size_t size = 0;
    log_size(program, &size);
    if (size > 1) {
        char *log = calloc(1, size);
        get_log(program, log);
        fputs(log, stderr);
    }
    if (code) return 1;
    ptx_size(program, &size);
    char *ptx = calloc(1, size);
    get_ptx(program, ptx);
    FILE *out = fopen(argv[3], "wb");
    if (!out || fwrite(ptx, 1, size - 1, out) != size - 1 || fclose(out)) {
        perror(argv[3]);
        return 2;
    }
    return 0;
}
