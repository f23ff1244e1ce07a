# Sidekiq's workers: one that calls the function that does nothing, and one that notes how long ago it was pushed.
require "sidekiq"
require File.join(ENV.fetch("BENCH_FUNCTIONS"), "noop.rb")

Sidekiq.configure_server do |config|
  config.redis = { path: ENV.fetch("BENCH_SOCKET"), db: 1 }
  config.logger.level = Logger::WARN
end

class Noop
  include Sidekiq::Worker

  def perform(message)
    handle(message)
  end
end

class Stamp
  include Sidekiq::Worker
  NOTED = File.open(ENV.fetch("BENCH_NOTED", "/dev/null"), "ab").tap { |f| f.sync = true }

  def perform(pushed)
    NOTED.write([Process.clock_gettime(Process::CLOCK_MONOTONIC, :nanosecond) - pushed.to_i].pack("q"))
  end
end
