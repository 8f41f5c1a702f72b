<?php
// SPDX-License-Identifier: Apache-2.0
// A worker's day with Pheanstalk: php beanstalk.php PORT. Prints "done" when all of it is right.
require_once 'Pheanstalk/autoload.php';

use Pheanstalk\Pheanstalk;

function check($is, $should): void
{
    if ($is != $should) {
        throw new Exception(var_export($is, true) . ', not ' . var_export($should, true));
    }
}

$p = Pheanstalk::create('127.0.0.1', (int) $argv[1]);
$put = $p->useTube('php')->put('hello', 7, 0, 90);
check($p->peekReady()->getData(), 'hello');
$p->watch('php')->ignore('default');
$job = $p->reserveWithTimeout(5);
check($job->getId(), $put->getId());
check($job->getData(), 'hello');
$stats = $p->statsJob($job);
check([$stats['state'], $stats['pri'], $stats['ttr'], $stats['tube']], ['reserved', 7, 90, 'php']);
$p->touch($job);
$p->release($job, 3, 100);
check($p->peekDelayed()->getId(), $job->getId());
check($p->kick(10), 1);
$job = $p->reserve();
$p->bury($job);
check($p->peekBuried()->getId(), $job->getId());
$p->kickJob($job);
$job = $p->reserve();
check($p->statsTube('php')['current-jobs-reserved'], 1);
$p->delete($job);
check($p->reserveWithTimeout(0), null);
check(in_array('php', $p->listTubes()), true);
check($p->listTubesWatched(), ['php']);
check($p->listTubeUsed(), 'php');
$p->pauseTube('php', 1);
$p->resumeTube('php');
check($p->stats()['cmd-delete'] >= 1, true);
echo "done\n";
