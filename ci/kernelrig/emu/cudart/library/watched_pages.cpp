#include "watched_pages.hpp"

#include <sys/mman.h>

namespace cudart {
namespace {

enum State : uint8_t { OPEN, NO_WRITES, CLOSED };
constexpr int PROTECTION[] = {PROT_READ | PROT_WRITE, PROT_READ, PROT_NONE};

// Of allocations that have a page that is not open, by page.
std::map<uint64_t, std::vector<State>>& watched() {
  static auto* all = new std::map<uint64_t, std::vector<State>>;
  return *all;
}

bool of_both_sides(const Allocation& one) {
  return one.kind == Kind::HOST || one.kind == Kind::MANAGED;
}

// Where the host has the pages of an allocation: registered memory is the program's own.
uint64_t host_address(uint64_t allocation) {
  for (auto& [start, pinned] : process().pinned)
    if (pinned.device == allocation)
      return start;
  return allocation;
}

void change(uint64_t allocation, size_t first, size_t end, State to) {
  mprotect(reinterpret_cast<void*>(host_address(allocation) + first * PAGE), (end - first) * PAGE,
           PROTECTION[to]);
}

// Which pages of an allocation are covered, from one part of it to the next.
class Cover {
public:
  Cover(uint64_t from, uint64_t bytes, State made, std::vector<State>& into)
      : start(from), size(bytes), state(made), pages(into) {}
  ~Cover() { close(); }

  void add(uint64_t from, uint64_t to) {
    if (from != last)
      close(), first = from;
    last = to;
  }

private:
  void close() {
    if (first >= last)
      return;
    size_t page = (first - start + PAGE - 1) / PAGE;
    size_t end = last - start == size ? pages.size() : (last - start) / PAGE;
    for (; page < end; page++)
      pages[page] = std::max(pages[page], state);
    first = last;
  }

  uint64_t start, size;
  State state;
  std::vector<State>& pages;
  uint64_t first = 0, last = 0;
};

void become(uint64_t allocation, const std::vector<State>& wanted) {
  auto& now = watched()[allocation];
  now.resize(wanted.size(), OPEN);
  for (size_t first = 0; first < wanted.size();) {
    size_t end = first + 1;
    while (end < wanted.size() && wanted[end] == wanted[first])
      end++;
    if (!std::equal(now.begin() + first, now.begin() + end, wanted.begin() + first))
      change(allocation, first, end, wanted[first]);
    first = end;
  }
  now = wanted;
  if (std::all_of(now.begin(), now.end(), [](State one) { return one == OPEN; }))
    watched().erase(allocation);
}

}  // namespace

void watch_pages(uint64_t address) {
  auto found = allocation_of(address);
  if (found == process().allocations.end() || !of_both_sides(found->second))
    return;
  auto& [start, one] = *found;
  std::vector<State> wanted((one.bytes + PAGE - 1) / PAGE, OPEN);
  {
    Cover any(start, one.bytes, NO_WRITES, wanted), writes(start, one.bytes, CLOSED, wanted);
    unfinished_for_host(start, start + one.bytes, [&](uint64_t from, uint64_t to, uint8_t use) {
      any.add(from, to);
      if (use & (WRITE | STRONG_WRITE))
        writes.add(from, to);
    });
  }
  become(start, wanted);
}

void watch_less() {
  std::vector<uint64_t> all;
  for (auto& [allocation, pages] : watched())
    all.push_back(allocation);
  for (uint64_t allocation : all)
    watch_pages(allocation);
}

void stop_watching(uint64_t allocation) {
  auto found = watched().find(allocation);
  if (found == watched().end())
    return;
  change(allocation, 0, found->second.size(), OPEN);
  watched().erase(found);
}

bool host_touched(uint64_t address, bool write, uint64_t at) {
  std::lock_guard held(process().lock);
  if (!is_device_address(address)) {
    auto after = process().pinned.upper_bound(address);
    if (after == process().pinned.begin())
      return false;
    auto& [start, pinned] = *std::prev(after);
    if (address - start >= pinned.bytes)
      return false;
    address = pinned.device + (address - start);
  }
  auto found = allocation_of(address);
  auto pages = found == process().allocations.end() ? watched().end() : watched().find(found->first);
  if (pages == watched().end())
    return false;
  size_t page = (address - found->first) / PAGE;
  if (pages->second[page] == OPEN || (pages->second[page] == NO_WRITES && !write))
    return false;
  Callers callers = callers_of(reinterpret_cast<void*>(at));
  callers.at++;  // of calls it is the address behind them
  host_accessed(address, address + 1, write ? WRITE : READ, What::HOST_ACCESS, callers);
  change(found->first, page, page + 1, OPEN);
  pages->second[page] = OPEN;
  return true;
}

}  // namespace cudart
