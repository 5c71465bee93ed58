#include <array>
#include <cassert>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <thread>
#include <utility>

#include "gossamer/optim/data.h"
#include "scratch.h"

namespace gossamer::optim {

/// A ring of three slots: the reader holds one, up to two are filled ahead. Slots are counted up without end;
/// slot number s lies in slots[s mod 3]. filled − released ≤ 3 always, so that what the reader holds is never
/// written.
struct BatchStream::Impl {
  struct Slot {
    std::vector<std::uint32_t> rows;
    std::vector<std::int32_t> labels;
    Scratch<float> values;
    Batch batch;
  };

  Impl(std::shared_ptr<const Dataset> rows_in, std::unique_ptr<Sampler> sampler_in, std::size_t batch,
       std::uint64_t first_step, bool threaded_in)
      : data(std::move(rows_in)), sampler(std::move(sampler_in)), step(first_step), threaded(threaded_in) {
    assert(data != nullptr && sampler != nullptr && batch >= 1);
    // Without a thread only the first is used.
    for (Slot& slot : std::span(slots).first(threaded ? slots.size() : 1)) {
      slot.rows.resize(batch);
      slot.labels.resize(data->classes() > 0 ? batch : 0);
      const std::span<float> x = slot.values.need(batch * data->features());
      slot.batch = {batch, data->features(), x, slot.labels};
    }
  }

  void fill(Slot& slot) {
    sampler->rows_of(step++, slot.rows);
    data->gather(slot.rows, slot.values.need(slot.rows.size() * data->features()));
    for (std::size_t i = 0; i < slot.labels.size(); ++i) slot.labels[i] = data->label(slot.rows[i]);
  }

  void run() {
    std::unique_lock lock(mutex);
    while (true) {
      changed.wait(lock, [this] { return stop || filled - released < slots.size(); });
      if (stop) return;
      lock.unlock();
      std::exception_ptr error;
      try {
        fill(slots[filled % slots.size()]);  // only this thread writes `filled`
      } catch (...) {
        error = std::current_exception();
      }
      lock.lock();
      if (error != nullptr) {
        failure = error;
        changed.notify_all();
        return;
      }
      ++filled;
      changed.notify_all();
    }
  }

  /// Gives back what the reader held and waits for the slot after it; batches filled before a failure come
  /// first.
  const Batch& next_threaded() {
    std::unique_lock lock(mutex);
    released = taken;
    changed.notify_all();
    changed.wait(lock, [this] { return filled > taken || failure != nullptr; });
    if (filled == taken) std::rethrow_exception(failure);
    return slots[taken++ % slots.size()].batch;
  }

  const std::shared_ptr<const Dataset> data;
  const std::unique_ptr<Sampler> sampler;
  std::uint64_t step;
  const bool threaded;
  std::array<Slot, 3> slots;
  std::mutex mutex;  ///< guards what follows
  std::condition_variable changed;
  std::uint64_t filled = 0, taken = 0, released = 0;
  bool stop = false;
  std::exception_ptr failure;
  std::thread thread;
};

BatchStream::BatchStream(std::shared_ptr<const Dataset> data, std::unique_ptr<Sampler> sampler,
                         std::size_t batch, std::uint64_t first_step, bool threaded)
    : impl_(std::make_unique<Impl>(std::move(data), std::move(sampler), batch, first_step, threaded)) {
  if (threaded) impl_->thread = std::thread([impl = impl_.get()] { impl->run(); });
}

BatchStream::~BatchStream() {
  if (!impl_->thread.joinable()) return;
  {
    const std::lock_guard lock(impl_->mutex);
    impl_->stop = true;
  }
  impl_->changed.notify_all();
  impl_->thread.join();
}

std::span<const std::uint32_t> BatchStream::rows() const {
  return impl_->slots[impl_->threaded && impl_->taken > 0 ? (impl_->taken - 1) % impl_->slots.size() : 0]
      .rows;
}

const Batch* BatchStream::ahead() const {
  if (!impl_->threaded) return nullptr;
  const std::lock_guard lock(impl_->mutex);
  return impl_->filled > impl_->taken ? &impl_->slots[impl_->taken % impl_->slots.size()].batch : nullptr;
}

const Batch& BatchStream::next() {
  if (impl_->threaded) return impl_->next_threaded();
  impl_->fill(impl_->slots[0]);
  return impl_->slots[0].batch;
}

}  // namespace gossamer::optim
