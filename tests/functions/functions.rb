# The same as functions.py.
require "digest/sha1"
require "fiddle"

def crash(message)
  Process.kill("SEGV", Process.pid) && sleep if message == "segv"
  Process.kill("KILL", Process.pid) && sleep if message == "kill"
  exit!(0) if message == "quick"
  exit message[5].to_i if ["exit 0", "exit 3"].include?(message)
end

def break_down(message)
  if message == "allocate"
    kept = []
    loop { kept << "x" * (8 << 20) }
  end
  loop { sleep 0.05 } if ["hang", "good hang"].include?(message)
  return if message != "hang in C"    # no signal ends the wait
  lock = Fiddle::Function.new(Fiddle.dlopen(nil)["pthread_mutex_lock"], [Fiddle::TYPE_VOIDP], Fiddle::TYPE_INT)
  mutex = "\0" * 128
  2.times { lock.call(mutex) }
end

def note(message)
  File.open(ENV.fetch("LEDGER"), "ab") { |f| f.syswrite("#{message}\n") } if message.start_with?("good")
end

def speak(message)
  if message == "print"
    puts "OK 7"
    IO.for_fd(1, autoclose: false).syswrite("OK 8\n")
    system("echo OK 9")
  end
  system("cat; test ! -e /proc/self/fd/3 || echo inherited") if message == "cat"
  spawn("setsid", "sleep", "77") if message == "daemon"
  fork { sleep 77 } if message == "linger"
  raise ArgumentError, "of a fork" if message == "fork" && fork.nil?
end

def decide(message, job)
  case message
  when "retry" then job.retry(after: 0.25, reason: "later\nnow", error_class: "SMTP")
  when "negative" then job.retry(after: -1)
  when "hold" then job.hold(after: 0.25, reason: "429\nnow")
  when "holds"
    begin
      job.hold
    rescue StandardError
      puts "swallowed"
    end
  when "below" then job.hold(after: -1)
  when "reject" then job.reject("no\0thing", error_class: "Bad Mail")
  when "fail" then job.fail("later")
  when "rescue"
    begin
      job.reject("no", error_class: "X")
    rescue => e
      puts "swallowed #{e}"
    end
  when "swallow"
    begin
      job.reject("no", error_class: "X")
    rescue Exception
      job.fail("a second verdict")
    end
  when "verbose" then raise ArgumentError, (1..300).map { |n| "line #{n}" }.join("\n")
  when "raise" then raise ArgumentError, "bad\nthing\0here OK 1"
  end
end

def wait(message, job)
  return unless message.start_with?("wait")
  begin
    job.beat
    job.progress(140, "half\nway")
    sleep 0.01 until File.exist?(message[5..] || "/none")
  ensure
    puts "finally ran"
  end
end

def handle(message, job)
  crash(message)
  note(message)
  break_down(message)
  speak(message)
  decide(message, job)
  wait(message, job)
  if message == "job"
    job.reject("#{job.queue} #{job.id} #{job.request_id} #{job.traceparent} #{job.schedule} #{job.scheduled_at} #{job.attempt} " \
               "#{job.max_attempts} #{job.redelivered} #{format("%.3f", job.deadline)} " \
               "#{ENV["QUREDIS_REPLY_FD"].inspect}")
  end
  job.reject("#{message.bytesize} #{Digest::SHA1.hexdigest(message)} #{job.id}") if message.start_with?("count")
end

def one(message)
  puts "one ran"
end

def three(message, job, other)
end

def none
end

def decoded(message, job)
  job.reject(message.is_a?(String) ? message : message["key"])
end

def after_fork
  puts "after fork"
end
