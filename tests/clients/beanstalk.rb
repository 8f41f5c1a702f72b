# SPDX-License-Identifier: Apache-2.0
# A worker's day with beaneater: ruby beanstalk.rb PORT. Prints "done" when all of it is right.
require 'beaneater'

def check(is, should)
  raise "#{is.inspect}, not #{should.inspect}" unless is == should
end

beanstalk = Beaneater.new("127.0.0.1:#{ARGV[0]}")
tube = beanstalk.tubes['ruby']
check tube.put('hello', pri: 5, ttr: 90)[:status], 'INSERTED'
check tube.peek(:ready).body, 'hello'
beanstalk.tubes.watch!('ruby')
job = beanstalk.tubes.reserve(5)
check job.body, 'hello'
check job.ttr, 90
check job.pri, 5
check job.stats.state, 'reserved'
job.touch
job.release(pri: 3, delay: 100)
check tube.peek(:delayed).id, job.id
check tube.kick(1)[:id], '1'
job = beanstalk.tubes.reserve(5)
job.bury
check tube.peek(:buried).id, job.id
check tube.stats.current_jobs_buried, 1
beanstalk.jobs.find(job.id).kick
job = beanstalk.tubes.reserve(5)
check job.stats.kicks, 2
job.delete
check beanstalk.jobs.find(job.id), nil
begin
  beanstalk.tubes.reserve(0)
  raise 'a job from nowhere'
rescue Beaneater::TimedOutError
end
check beanstalk.tubes.all.map(&:name).include?('ruby'), true
check beanstalk.stats.cmd_put.to_i >= 1, true
tube.pause(1)
tube.clear
beanstalk.close
puts 'done'
