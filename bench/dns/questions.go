package main

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"time"

	"golang.org/x/net/dns/dnsmessage"
	"golang.org/x/sync/errgroup"

	"github.com/garboard/garboard/bench/measure"
	"github.com/garboard/garboard/bench/sample"
)

const (
	// zone is that of Services in the namespace that is used.
	zone = ".default.svc.cluster.local."
	// answerTimeout bounds the wait for an answer.
	answerTimeout = 5 * time.Second
	// warmUp is the number of names that are resolved before a measurement.
	warmUp = 2000
)

// kinds are the names that are resolved. Each is a list of questions, of which the last one has the answer.
func kinds() []kind {
	service := sample.ServiceName(5) + zone
	return []kind{
		{"a Service", []string{service}, dnsmessage.RCodeSuccess},
		{"no such name", []string{"x-" + service}, dnsmessage.RCodeNameError},
		{"another name, cached", []string{existing}, dnsmessage.RCodeSuccess},
		// What a C library asks in a pod whose node has one search domain.
		{"another name, after four search domains", []string{
			existing + zone[1:], existing + "svc.cluster.local.", existing + "cluster.local.", existing + "corp.example.", existing,
		}, dnsmessage.RCodeSuccess},
	}
}

type kind struct {
	name      string
	questions []string
	code      dnsmessage.RCode // of the last answer
}

// questions measures CPU and time of each kind of name.
func (b *bench) questions(ctx context.Context) error {
	b.report.Table(fmt.Sprintf("Names; %d Services; medians of %d times %d names", b.services, b.repeats, b.names),
		"name", "clients", "server", "CPU per name, µs", "time, median, µs", "99 %, µs")
	for _, k := range kinds() {
		for _, clients := range b.clients {
			cpu, half, most := map[string][]time.Duration{}, map[string][]time.Duration{}, map[string][]time.Duration{}
			for range b.repeats {
				for _, s := range b.sides {
					used, took, err := s.load(ctx, k, clients, b.names)
					if err != nil {
						return fmt.Errorf("asking %s for %s: %w", s.name, k.name, err)
					}
					cpu[s.name] = append(cpu[s.name], used)
					half[s.name], most[s.name] = append(half[s.name], measure.Median(took)), append(most[s.name], measure.Share(took, 0.99))
				}
			}
			for _, s := range b.sides {
				b.report.Row(k.name, strconv.Itoa(clients), s.name, "**"+micro(measure.Median(cpu[s.name]))+"** ("+micro(measure.Share(cpu[s.name], 0))+
					" to "+micro(measure.Share(cpu[s.name], 1))+")", micro(measure.Median(half[s.name])), micro(measure.Median(most[s.name])))
			}
		}
	}
	return nil
}

// load has clients resolve names, n in all, and returns the server's CPU for each and how long each took.
func (s side) load(ctx context.Context, k kind, clients, n int) (each time.Duration, took []time.Duration, err error) {
	if _, err := s.resolve(ctx, k, clients, warmUp); err != nil {
		return 0, nil, err
	}
	before, err := s.program.Family()
	if err != nil {
		return 0, nil, err
	}
	if took, err = s.resolve(ctx, k, clients, n); err != nil {
		return 0, nil, err
	}
	after, err := s.program.Family()
	return (after - before) / time.Duration(len(took)), took, err
}

// resolve has clients resolve names, each one after the other.
func (s side) resolve(ctx context.Context, k kind, clients, n int) ([]time.Duration, error) {
	all := make([][]time.Duration, clients)
	group, ctx := errgroup.WithContext(ctx)
	for i := range clients {
		group.Go(func() error {
			c, err := dial(ctx, s.address)
			if err != nil {
				return err
			}
			defer c.close()
			for range max(n/clients, 1) {
				began := time.Now()
				for j, name := range k.questions {
					answer, err := c.ask(name)
					if err != nil {
						return err
					}
					want := k.code
					if j < len(k.questions)-1 {
						want = dnsmessage.RCodeNameError
					}
					if code := dnsmessage.RCode(answer[3] & 15); code != want {
						return fmt.Errorf("the answer about %s has the code %v, not %v", name, code, want)
					}
				}
				all[i] = append(all[i], time.Since(began))
			}
			return ctx.Err()
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	var took []time.Duration
	for _, some := range all {
		took = append(took, some...)
	}
	return took, nil
}

// client asks questions, one after the other.
type client struct {
	conn     net.Conn
	messages map[string][]byte
	buffer   []byte
}

func dial(ctx context.Context, address string) (*client, error) {
	conn, err := new(net.Dialer).DialContext(ctx, "udp", address)
	if err != nil {
		return nil, fmt.Errorf("connecting to %s: %w", address, err)
	}
	return &client{conn: conn, messages: map[string][]byte{}, buffer: make([]byte, 4096)}, nil
}

func (c *client) close() { _ = c.conn.Close() }

// ask returns the answer about a name's IPv4 addresses, until the next call.
func (c *client) ask(name string) ([]byte, error) {
	message := c.messages[name]
	if message == nil {
		asked, err := dnsmessage.NewName(name)
		if err != nil {
			return nil, fmt.Errorf("asking for %s: %w", name, err)
		}
		question := dnsmessage.Message{
			Header:    dnsmessage.Header{ID: uint16(len(c.messages)), RecursionDesired: true},
			Questions: []dnsmessage.Question{{Name: asked, Type: dnsmessage.TypeA, Class: dnsmessage.ClassINET}},
		}
		if message, err = question.Pack(); err != nil {
			return nil, fmt.Errorf("asking for %s: %w", name, err)
		}
		c.messages[name] = message
	}
	if err := c.conn.SetDeadline(time.Now().Add(answerTimeout)); err != nil {
		return nil, err
	}
	if _, err := c.conn.Write(message); err != nil {
		return nil, err
	}
	n, err := c.conn.Read(c.buffer)
	if err != nil {
		return nil, err
	}
	const header = 12
	if n < header || c.buffer[0] != message[0] || c.buffer[1] != message[1] {
		return nil, fmt.Errorf("what came is no answer about %s", name)
	}
	return c.buffer[:n], nil
}

// answers reports whether a server knows the last Service, and forwards.
func (b *bench) answers(ctx context.Context, s side) bool {
	c, err := dial(ctx, s.address)
	if err != nil {
		return false
	}
	defer c.close()
	for _, name := range []string{sample.ServiceName(b.services-1) + zone, existing} {
		if answer, err := c.ask(name); err != nil || answer[3]&15 != 0 {
			return false
		}
	}
	return true
}

func micro(d time.Duration) string { return fmt.Sprintf("%.1f", float64(d)/float64(time.Microsecond)) }
