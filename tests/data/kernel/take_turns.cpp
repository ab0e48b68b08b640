// take_turns FILE NAME TURN[,TURN...] [fail-at TURN]: takes its turns of a relay and prints each.
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "options.cuh"
#include "relay.cuh"

int main(int argc, char **argv) {
  try {
    const std::vector<int> turns = kernelrig::parse_turns(argv[3]);
    const int fails_at = argc > 5 ? std::atoi(argv[5]) : -1;
    const kernelrig::Relay relay(argv[1], turns);
    relay.ready();
    for (const int turn : turns) {
      if (turn == 0) // as a session does, which loads the card meanwhile
        while (!relay.all_ready())
          std::this_thread::yield();
      else
        relay.wait_for(turn);
      if (turn == fails_at)
        return 70;
      std::printf("%d %s\n", turn, argv[2]);
      std::fflush(stdout);
      relay.over(turn);
    }
    relay.wait_for_all();
    return 0;
  } catch (const kernelrig::UsageError &error) {
    std::fprintf(stderr, "%s\n", error.sentence.c_str());
    return 2;
  } catch (const kernelrig::Failure &failure) {
    std::fprintf(stderr, "%s\n", failure.text.c_str());
    return failure.exit_code;
  }
}
