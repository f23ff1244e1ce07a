# The function that does nothing, and the handler for exec mode that calls it.
require "sidekiq" if ENV["BENCH_FRAMEWORK"]

def handle(message)
end

handle($stdin.read) if __FILE__ == $0
