package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"time"

	"github.com/garboard/garboard/test/chaos/plane"
	"github.com/garboard/garboard/test/chaos/proxy"
)

// lease is longer than the 10 s lease under which publishers are elected.
const lease = 13 * time.Second

// errNoEffect reports that a fault had no effect, for example because another one prevented it.
var errNoEffect = errors.New("no effect")

// fault is a failure that the test injects.
type fault struct {
	name string
	// outside faults affect the network and informers; any of them can be combined with one that is
	// not outside.
	outside bool
	// servers is the minimum number of NATS servers.
	servers int
	// happen injects the fault and returns the time at which it was over.
	happen func(ctx context.Context, s *stage, random *rand.Rand) (over time.Time, err error)
}

// faults returns all known faults.
func faults() []fault {
	return []fault{
		{name: "publisher killed in a burst", happen: publisherKilled},
		{name: "two publishers: one stopped for longer than its lease", happen: publisherFrozen},
		{name: "NATS killed and restarted", happen: natsKilled},
		{name: "NATS killed, its data deleted, restarted", happen: natsWiped},
		{name: "leader of the replicated log killed", servers: 3, happen: logLeaderKilled},
		{name: "etcd killed and restarted", happen: etcdKilled},
		{name: "partition apiserver-NATS", happen: apiserverCut},
		{name: "partition informer-NATS, connections cut", outside: true, happen: informersCut},
		{name: "partition informer-NATS, silent", outside: true, happen: informersHeld},
		{name: "1 % of messages dropped, 1 % repeated, 1 % swapped", outside: true, happen: messagesSpoiled},
		{name: "messages late by 200 ms", outside: true, happen: messagesLate},
		{name: "subscriber too slow for its buffer", outside: true, happen: subscriberSlow},
		{name: "process of informers stopped", outside: true, happen: informersFrozen},
		{name: "handler blocked", outside: true, happen: handlerBlocked},
		{name: "etcd compacted past the cursor", happen: etcdCompacted},
		{name: "etcd restored, older, revisions raised", happen: restoredRaised},
		{name: "etcd restored, older, apiservers alive", happen: restoredOlder},
		{name: "etcd restored, newer than before", happen: restoredNewer},
		{name: "deleted and created again in a gap", outside: true, happen: recreatedInGap},
		{name: "pods bound and moved in a gap", outside: true, happen: movedInGap},
		{name: "1,000 informers reconnect at once", happen: thousandReconnect},
		{name: "object of 1.4 MiB", outside: true, happen: largeObject},
	}
}

func publisherKilled(ctx context.Context, s *stage, random *rand.Rand) (time.Time, error) {
	leader, err := s.plane.Leader(ctx)
	if err != nil {
		return time.Time{}, err
	}
	burst := background(ctx, func(ctx context.Context) error { s.load.Burst(ctx, random, 400); return nil })
	wait(ctx, 200*time.Millisecond+time.Duration(random.IntN(300))*time.Millisecond)
	leader.Kill()
	err = burst()
	wait(ctx, time.Duration(random.IntN(3000))*time.Millisecond)
	if err != nil {
		return time.Time{}, err
	}
	return time.Now(), leader.Start(ctx)
}

func publisherFrozen(ctx context.Context, s *stage, _ *rand.Rand) (time.Time, error) {
	leader, err := s.plane.Leader(ctx)
	if err != nil {
		return time.Time{}, err
	}
	if err := leader.Freeze(); err != nil {
		return time.Time{}, err
	}
	wait(ctx, lease)
	for _, other := range s.plane.Apiservers {
		if other != leader && err == nil {
			err = other.Lead(ctx)
		}
	}
	if thawed := leader.Thaw(); err == nil {
		err = thawed
	}
	over := time.Now()
	wait(ctx, 2*time.Second)
	return over, err
}

func anyNATS(s *stage, random *rand.Rand) *plane.NATS {
	return s.plane.NATS[random.IntN(len(s.plane.NATS))]
}

func natsKilled(ctx context.Context, s *stage, random *rand.Rand) (time.Time, error) {
	server := anyNATS(s, random)
	server.Kill()
	wait(ctx, time.Duration(random.IntN(4000))*time.Millisecond)
	err := server.Restart(ctx)
	return time.Now(), err
}

func natsWiped(ctx context.Context, s *stage, random *rand.Rand) (time.Time, error) {
	server := anyNATS(s, random)
	server.Kill()
	if err := server.Wipe(); err != nil {
		return time.Time{}, err
	}
	wait(ctx, time.Duration(random.IntN(4000))*time.Millisecond)
	err := server.Restart(ctx)
	return time.Now(), err
}

func logLeaderKilled(ctx context.Context, s *stage, random *rand.Rand) (time.Time, error) {
	leader, replicas, err := s.plane.LogLeader(ctx)
	if err != nil {
		return time.Time{}, err
	}
	if replicas != len(s.plane.NATS) {
		return time.Time{}, fmt.Errorf("the log has %d replicas, not %d", replicas, len(s.plane.NATS))
	}
	leader.Kill()
	wait(ctx, s.lasting(5*time.Second, 12*time.Second)+time.Duration(random.IntN(3000))*time.Millisecond)
	err = leader.Restart(ctx)
	return time.Now(), err
}

func etcdKilled(ctx context.Context, s *stage, random *rand.Rand) (time.Time, error) {
	s.plane.Etcd.Kill()
	wait(ctx, time.Duration(random.IntN(3000))*time.Millisecond)
	err := s.plane.Etcd.Restart(ctx)
	return time.Now(), err
}

func apiserverCut(ctx context.Context, s *stage, random *rand.Rand) (time.Time, error) {
	leader, err := s.plane.Leader(ctx)
	if err != nil {
		return time.Time{}, err
	}
	silent := random.IntN(2) == 0
	each(leader.Proxies, func(p *proxy.Proxy) {
		if silent {
			p.Hold()
		} else {
			p.Cut()
		}
	})
	wait(ctx, s.lasting(5*time.Second, 25*time.Second))
	each(leader.Proxies, (*proxy.Proxy).Heal)
	return time.Now(), nil
}

func each(proxies []*proxy.Proxy, do func(*proxy.Proxy)) {
	for _, p := range proxies {
		do(p)
	}
}

// outside returns every connection between informers and NATS.
func (s *stage) outside() []*proxy.Proxy {
	var all []*proxy.Proxy
	for _, w := range s.plane.Watchers {
		all = append(all, w.Proxies...)
	}
	return all
}

func informersCut(ctx context.Context, s *stage, _ *rand.Rand) (time.Time, error) {
	each(s.outside(), (*proxy.Proxy).Cut)
	wait(ctx, s.lasting(3*time.Second, 40*time.Second))
	each(s.outside(), (*proxy.Proxy).Heal)
	return time.Now(), nil
}

func informersHeld(ctx context.Context, s *stage, _ *rand.Rand) (time.Time, error) {
	each(s.outside(), (*proxy.Proxy).Hold)
	wait(ctx, s.lasting(4*time.Second, 45*time.Second))
	each(s.outside(), (*proxy.Proxy).Heal)
	return time.Now(), nil
}

func messagesSpoiled(ctx context.Context, s *stage, _ *rand.Rand) (time.Time, error) {
	each(s.outside(), func(p *proxy.Proxy) { p.Spoil(proxy.Faults{Drop: 0.01, Repeat: 0.01, Swap: 0.01}) })
	wait(ctx, s.lasting(8*time.Second, 30*time.Second))
	spoiled := 0
	each(s.outside(), func(p *proxy.Proxy) { spoiled += p.Spoiled(); p.Heal() })
	if spoiled == 0 {
		return time.Now(), fmt.Errorf("%w: no message was spoiled", errNoEffect)
	}
	return time.Now(), nil
}

func messagesLate(ctx context.Context, s *stage, _ *rand.Rand) (time.Time, error) {
	each(s.outside(), func(p *proxy.Proxy) { p.Delay(200 * time.Millisecond) })
	wait(ctx, s.lasting(3*time.Second, 20*time.Second))
	each(s.outside(), (*proxy.Proxy).Heal)
	return time.Now(), nil
}

// subscriberSlow stalls the followers, whose buffers hold 256 messages for narrow views.
func subscriberSlow(ctx context.Context, s *stage, random *rand.Rand) (time.Time, error) {
	const lost = "messages were lost"
	before := s.logged("watcher-", lost)
	slow := s.lasting(5*time.Second, 20*time.Second)
	over := time.Now().Add(slow)
	for _, w := range s.plane.Watchers {
		if err := w.Stall(slow); err != nil {
			return time.Time{}, err
		}
	}
	err := s.load.Storm(ctx, random, 800, 0)
	wait(ctx, time.Until(over))
	if err != nil || s.logged("watcher-", lost) == before {
		return over, errors.Join(fmt.Errorf("%w: no buffer overflowed", errNoEffect), err)
	}
	return over, nil
}

// informersFrozen freezes a process of informers. NATS buffers 4 MB per connection, in addition to
// the kernels' socket buffers.
func informersFrozen(ctx context.Context, s *stage, random *rand.Rand) (time.Time, error) {
	const cut = "Slow Consumer"
	before := s.logged("nats-", cut)
	w := s.plane.Watchers[random.IntN(len(s.plane.Watchers))]
	if err := w.Freeze(); err != nil {
		return time.Time{}, err
	}
	err := s.load.Storm(ctx, random, 200, 100<<10)
	wait(ctx, s.lasting(3*time.Second, 30*time.Second))
	if err := w.Thaw(); err != nil {
		return time.Time{}, err
	}
	over := time.Now()
	if err != nil || s.logged("nats-", cut) == before {
		return over, errors.Join(fmt.Errorf("%w: NATS closed no connection", errNoEffect), err)
	}
	return over, nil
}

// logged counts the occurrences of words in the logs whose names begin with prefix.
func (s *stage) logged(prefix, words string) int {
	files, err := filepath.Glob(s.file(prefix + "*.log"))
	if err != nil {
		return 0
	}
	count := 0
	for _, file := range files {
		if text, err := os.ReadFile(file); err == nil {
			count += bytes.Count(text, []byte(words))
		}
	}
	return count
}

func handlerBlocked(ctx context.Context, s *stage, _ *rand.Rand) (time.Time, error) {
	blocked := s.lasting(8*time.Second, time.Minute)
	over := time.Now().Add(blocked)
	for _, w := range s.plane.Watchers {
		if err := w.Block(blocked); err != nil {
			return time.Time{}, err
		}
	}
	wait(ctx, blocked)
	return over, nil
}

func recreatedInGap(ctx context.Context, s *stage, random *rand.Rand) (time.Time, error) {
	each(s.outside(), (*proxy.Proxy).Cut)
	err := s.load.Recreate(ctx, random, 30)
	each(s.outside(), (*proxy.Proxy).Heal)
	return time.Now(), err
}

func movedInGap(ctx context.Context, s *stage, random *rand.Rand) (time.Time, error) {
	each(s.outside(), (*proxy.Proxy).Cut)
	err := s.load.MoveAll(ctx, random)
	each(s.outside(), (*proxy.Proxy).Heal)
	return time.Now(), err
}

func thousandReconnect(ctx context.Context, s *stage, random *rand.Rand) (time.Time, error) {
	const informers = 1000
	w, err := s.plane.Watch(ctx, fmt.Sprintf("thousand-%d", random.Uint64()), informers, informers)
	if err != nil {
		return time.Time{}, err
	}
	defer func() {
		s.plane.EndWatcher(w)
		s.checker.Forget(w.Name)
	}()
	if err := s.begun(ctx, processes*informersEach+informers); err != nil {
		return time.Time{}, err
	}
	s.load.Burst(ctx, random, 200)
	each(w.Proxies, (*proxy.Proxy).Reset)
	over := time.Now()
	s.load.Pause()
	defer s.load.Resume()
	err = s.equal(ctx)
	return over, err
}

func largeObject(ctx context.Context, s *stage, random *rand.Rand) (time.Time, error) {
	if err := s.load.Large(ctx, random, 4); err != nil {
		return time.Now(), fmt.Errorf("%w: %w", errNoEffect, err)
	}
	return time.Now(), nil
}
