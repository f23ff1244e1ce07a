#!/usr/bin/ruby
# A persistent handler: appends every message to the file that is its first argument. See quredis-handler(7).
$stdin.binmode
$stdout.sync = true
file = File.open(ARGV[0], "ab")
while (head = $stdin.gets)                              # JOB serial attempt bytes [key=value ...]
  serial, size = head.split.values_at(1, 3).then { |word, n| [word, n.to_i] }
  message = $stdin.read(size + 1)                       # and its newline
  break if message.nil? || message.bytesize <= size
  begin
    file.syswrite(message.byteslice(0, size))
    puts size.zero? ? "REJECT #{serial} it is empty" : "OK #{serial}"
  rescue SystemCallError => e then puts "RETRY #{serial} 10s #{e.message}"
  end
end
