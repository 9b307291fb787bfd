package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/garboard/garboard/libs/bus"
	"github.com/garboard/garboard/test/chaos/plane"
)

// barePath is a relay with its own NATS server.
type barePath struct {
	world       *world
	name        string
	nats, relay *plane.Process
	conn        *bus.Conn
	arrived     *moments

	mu        sync.Mutex
	published map[int64]time.Time
}

// newBarePath starts a bare path. If stream is not empty, it names a JetStream stream that stores
// the messages.
func (w *world) newBarePath(ctx context.Context, name, stream string) (path *barePath, err error) {
	p := &barePath{world: w, name: name, arrived: newMoments(), published: map[int64]time.Time{}}
	defer func() {
		if err != nil {
			p.close()
		}
	}()
	number, err := plane.FreePort(ctx)
	if err != nil {
		return p, err
	}
	port := strconv.Itoa(number)
	p.nats = plane.NewProcess(name+"-nats", w.dir, []string{
		w.bench.binaries.NATS, "--addr", "127.0.0.1", "--port", port, "--jetstream", "--store_dir", filepath.Join(w.dir, name+"-nats"),
	}, nil)
	if err := p.nats.Start(); err != nil {
		return p, err
	}
	url := "nats://127.0.0.1:" + port
	// It retries until the server is up.
	if p.conn, err = bus.Connect(ctx, bus.Config{URLs: []string{url}, Name: name}); err != nil {
		return p, err
	}
	if _, err := p.conn.Subscribe(ctx, name+".*.*", func(m bus.Message) {
		var revision, published int64
		if _, err := fmt.Sscanf(strings.TrimPrefix(m.Subject, name+"."), "%d.%d", &revision, &published); err == nil {
			p.arrived.note(revision)
			p.mu.Lock()
			defer p.mu.Unlock()
			p.published[revision] = time.Unix(0, published)
		}
	}); err != nil {
		return p, err
	}
	ready := make(chan struct{})
	p.relay = plane.NewProcess(name+"-relay", w.dir, []string{
		w.bench.relay, "-etcd", w.Etcd.URL(), "-nats", url, "-prefix", bareBelow + name + "/", "-subject", name, "-stream", stream,
	}, func(from io.Reader) {
		_, _ = bufio.NewReader(from).ReadString('\n')
		close(ready)
		_, _ = io.Copy(io.Discard, from)
	})
	if err := p.relay.Start(); err != nil {
		return p, err
	}
	select {
	case <-ready:
	case <-ctx.Done():
		return p, ctx.Err()
	}
	return p, errors.Join(p.conn.Flush(ctx), p.relay.Died())
}

func (p *barePath) close() {
	if p.relay != nil {
		p.relay.Kill()
	}
	if p.conn != nil {
		p.conn.Close()
	}
	if p.nats != nil {
		p.nats.Kill()
	}
}

// measure writes, and adds the times from each acknowledgement to the subscriber.
func (p *barePath) measure(ctx context.Context, to map[string][]time.Duration) error {
	acknowledged, last, err := p.world.writeEach(ctx, bareBelow+p.name+"/")
	if err != nil {
		return err
	}
	if err := p.arrived.wait(ctx, last); err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	to[p.name] = append(to[p.name], between(acknowledged, p.arrived.at)...)
	to[p.name+" taken"] = append(to[p.name+" taken"], between(acknowledged, p.published)...)
	to[p.name+" carried"] = append(to[p.name+" carried"], between(only(p.published, acknowledged), p.arrived.at)...)
	return nil
}
