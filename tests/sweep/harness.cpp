// A stand-in for a harness program with tunables: hands its set and its command line to ANSWER.
#include <cstdio>
#include <cstdlib>
#include <string>
#include <unistd.h>
#include <vector>

int main(int argc, char **argv) {
  const char *python = std::getenv("PYTHON"), *answer = std::getenv("ANSWER");
  if (python == nullptr || answer == nullptr)
    return 2;
  std::string depth = std::to_string(DEPTH), width = std::to_string(WIDTH);
  std::vector<char *> words = {const_cast<char *>(python), const_cast<char *>(answer),
                               depth.data(), width.data()};
  words.insert(words.end(), argv + 1, argv + argc);
  words.push_back(nullptr);
  execv(python, words.data());
  std::perror("execv");
  return 2;
}
