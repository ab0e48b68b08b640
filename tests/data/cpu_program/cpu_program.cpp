// A program without a GPU that does what it is told, in the order it is told: the level-0 kernel of
// the end-to-end tests. Nothing it does is without end: waits stop after LIMIT_S, so that a fault in
// what is tested leaves neither a process nor a full disk behind.
//
//   --say TEXT          print a line            --complain TEXT     print a line to stderr
//   --env NAME          print NAME=value        --write FILE TEXT   make a file with one line
//   --wait-for FILE     wait until FILE exists  --hang              wait for nothing
//   --ignore-term       SIGTERM does nothing    --crash SIGNAL      die by this signal
//   --flood MB          print so many MB        --fill MB           write so many MB to ./ballast
//   --stray FILE        leave a process of another session, its pid in FILE
//   --built-as          print what this build was told that it is
//   --exit N            end with this code
//
// Codes of its own: 0 done, 2 usage, 28 no space left on the disk, 75 a wait reached its limit.

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#ifndef KERNELRIG_PROGRAM
#define KERNELRIG_PROGRAM "cpu_program"
#endif
#ifndef BUILT_AS
#define BUILT_AS "nothing in particular"
#endif

namespace {

constexpr int LIMIT_S = 300;
constexpr size_t MB = 1 << 20;

enum Code { DONE = 0, FAILED = 1, USAGE = 2, NO_SPACE = 28, LIMIT = 75 };

[[noreturn]] void fail(const std::string &what) {
  const int code = errno == ENOSPC || errno == EDQUOT ? NO_SPACE : FAILED;
  std::fprintf(stderr, KERNELRIG_PROGRAM ": %s: %s\n", what.c_str(), std::strerror(errno));
  std::exit(code);
}

void print(FILE *where, const std::string &line) {
  std::fprintf(where, "%s\n", line.c_str());
  std::fflush(where); // a follower sees it now, a crash loses nothing
}

// Under its final name a file is whole: tests wait for the name.
void write_file(const std::string &path, const std::string &text) {
  const std::string part = path + ".part";
  FILE *file = std::fopen(part.c_str(), "w");
  if (!file || std::fprintf(file, "%s\n", text.c_str()) < 0 || std::fclose(file) != 0)
    fail(part);
  if (std::rename(part.c_str(), path.c_str()) != 0)
    fail(path);
}

void wait_for(const char *path) {
  struct stat found;
  for (int i = 0; i < LIMIT_S * 100; ++i) {
    if (stat(path, &found) == 0)
      return;
    usleep(10000);
  }
  std::exit(LIMIT);
}

[[noreturn]] void hang() {
  for (int i = 0; i < LIMIT_S; ++i)
    sleep(1);
  _exit(LIMIT);
}

void crash(int number) {
  std::signal(number, SIG_DFL);
  raise(number);
}

void pour(int descriptor, size_t megabytes, const char *what) {
  std::string block;
  for (int i = 0; block.size() < MB; ++i)
    block += "line " + std::to_string(i) + " of a flood that nobody reads\n";
  block.resize(MB);
  for (size_t i = 0; i < megabytes; ++i)
    for (size_t done = 0; done < MB;) {
      const ssize_t n = write(descriptor, block.data() + done, MB - done);
      if (n < 0)
        fail(what);
      done += static_cast<size_t>(n);
    }
}

void fill(size_t megabytes) {
  const int file = open("ballast", O_CREAT | O_WRONLY | O_TRUNC, 0644);
  if (file < 0)
    fail("ballast");
  pour(file, megabytes, "ballast");
  close(file);
}

// Forks twice and takes a session of its own, as a daemon does: neither our process group nor our
// parentage leads to it. We go on when its pid stands in the file.
void leave_stray(const char *path) {
  const pid_t child = fork();
  if (child < 0)
    fail("fork");
  if (child > 0) {
    int status = 0;
    if (waitpid(child, &status, 0) < 0)
      fail("waitpid");
    wait_for(path);
    return;
  }
  setsid();
  const pid_t stray = fork();
  if (stray != 0)
    _exit(stray < 0 ? FAILED : DONE);
  const int null = open("/dev/null", O_RDWR);
  for (int i = 0; i < 3; ++i)
    dup2(null, i);
  write_file(path, std::to_string(getpid()));
  hang();
}

} // namespace

int main(int argc, char **argv) {
  for (int i = 1; i < argc; ++i) {
    const std::string flag = argv[i];
    const auto value = [&]() -> const char * {
      if (++i >= argc) {
        std::fprintf(stderr, KERNELRIG_PROGRAM ": %s needs a value\n", flag.c_str());
        std::exit(USAGE);
      }
      return argv[i];
    };
    if (flag == "--say") {
      print(stdout, value());
    } else if (flag == "--complain") {
      print(stderr, value());
    } else if (flag == "--env") {
      const std::string name = value();
      const char *found = std::getenv(name.c_str());
      print(stdout, name + "=" + (found ? found : ""));
    } else if (flag == "--write") {
      const std::string path = value();
      write_file(path, value());
    } else if (flag == "--wait-for") {
      wait_for(value());
    } else if (flag == "--hang") {
      hang();
    } else if (flag == "--ignore-term") {
      std::signal(SIGTERM, SIG_IGN);
    } else if (flag == "--crash") {
      crash(std::atoi(value()));
    } else if (flag == "--flood") {
      pour(STDOUT_FILENO, std::strtoul(value(), nullptr, 10), "stdout");
    } else if (flag == "--fill") {
      fill(std::strtoul(value(), nullptr, 10));
    } else if (flag == "--stray") {
      leave_stray(value());
    } else if (flag == "--built-as") {
      print(stdout, "built as " BUILT_AS);
    } else if (flag == "--exit") {
      return std::atoi(value());
    } else {
      std::fprintf(stderr, KERNELRIG_PROGRAM ": unknown flag %s\n", flag.c_str());
      return USAGE;
    }
  }
  return DONE;
}
