#include "accesses.hpp"

namespace cudart {
namespace {

bool same(const std::vector<Access>& one, const std::vector<Access>& other) {
  return std::equal(one.begin(), one.end(), other.begin(), other.end(),
                    [](const Access& a, const Access& b) { return a.by == b.by && a.use == b.use; });
}

// Adds an access. One that is complete before it, and conflicts with nothing else than it does, is
// dropped: what races with that one and begins later races with this one, or is behind both.
void add(std::vector<Access>& all, const Access& access, const Clock& clock) {
  uint8_t use = access.use;
  for (size_t i = 0; i < all.size();) {
    const Piece& by = *all[i].by;
    bool own = all[i].by == access.by;
    bool behind = clock.of(by.chain).ruled >= by.epoch;
    bool covered = !(conflicting(all[i].use) & ~conflicting(access.use));
    use |= own ? all[i].use : 0;
    if (own || (behind && covered)) {
      all[i] = all.back();
      all.pop_back();
    } else {
      i++;
    }
  }
  all.push_back({access.by, use});
}

}  // namespace

void Accesses::split(uint64_t at) {
  auto next = parts.lower_bound(at);
  if (next == parts.begin() || (next != parts.end() && next->first == at))
    return;
  auto& [start, part] = *std::prev(next);
  if (part.end <= at)
    return;
  parts.emplace_hint(next, at, Part{part.end, part.accesses});
  part.end = at;
}

void Accesses::of(uint64_t start, uint64_t end, const Seen& seen) const {
  auto at = parts.upper_bound(start);
  if (at != parts.begin() && std::prev(at)->second.end > start)
    --at;
  for (; at != parts.end() && at->first < end; ++at)
    for (const Access& one : at->second.accesses)
      seen(one, std::max(start, at->first), std::min(end, at->second.end));
}

void Accesses::keep(uint64_t start, uint64_t end, const Access& access, const Clock& clock) {
  if (start >= end)
    return;
  split(start);
  split(end);
  std::vector<std::pair<uint64_t, Part>> made;
  auto push = [&](uint64_t from, Part part) {
    if (!made.empty() && made.back().second.end == from &&
        same(made.back().second.accesses, part.accesses))
      made.back().second.end = part.end;
    else
      made.emplace_back(from, std::move(part));
  };
  auto first = parts.lower_bound(start), at = first;
  uint64_t reached = start;
  for (; at != parts.end() && at->first < end; ++at) {
    if (at->first > reached)
      push(reached, {at->first, {access}});
    reached = at->second.end;
    add(at->second.accesses, access, clock);
    push(at->first, std::move(at->second));
  }
  if (reached < end)
    push(reached, {end, {access}});
  at = parts.erase(first, at);
  for (auto& [from, part] : made)
    parts.emplace_hint(at, from, std::move(part));
}

void Accesses::forget(uint64_t start, uint64_t end) {
  split(start);
  split(end);
  parts.erase(parts.lower_bound(start), parts.lower_bound(end));
}

void Accesses::forget_complete(const Clock& host) {
  for (auto at = parts.begin(); at != parts.end();) {
    auto& all = at->second.accesses;
    all.erase(std::remove_if(all.begin(), all.end(),
                             [&](const Access& one) {
                               return host.of(one.by->chain).ruled >= one.by->epoch;
                             }),
              all.end());
    at = all.empty() ? parts.erase(at) : std::next(at);
  }
}

}  // namespace cudart
