// take_slots FILE NAME SLOT[,SLOT...] [fail-at SLOT]: takes its slots of a relay and prints each.
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "options.cuh"
#include "relay.cuh"

int main(int argc, char **argv) {
  try {
    const std::vector<int> slots = kernelrig::parse_slots(argv[3]);
    const int fails_at = argc > 5 ? std::atoi(argv[5]) : -1;
    const kernelrig::Relay relay(argv[1], slots);
    relay.ready();
    for (const int slot : slots) {
      if (slot == 0) // as a session does, which puts load on the GPU meanwhile
        while (!relay.all_ready())
          std::this_thread::yield();
      else
        relay.wait_for(slot);
      if (slot == fails_at)
        return 70;
      std::printf("%d %s\n", slot, argv[2]);
      std::fflush(stdout);
      relay.over(slot);
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
