package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/garboard/garboard/bench/fabric/messages"
	"github.com/garboard/garboard/test/chaos/plane"
)

const (
	// patience bounds waits for informers.
	patience = 10 * time.Minute
	// maxLine bounds one answer.
	maxLine = 256 << 20
)

// crowd is a process of informers.
type crowd struct {
	process *plane.Process
	answers chan messages.Answer
}

// newCrowd starts a process of informers and connects each of them; they start when told to.
func (w *world) newCrowd(ctx context.Context, n int) (*crowd, error) {
	c := &crowd{answers: make(chan messages.Answer, 1)}
	c.process = plane.NewProcess("informers-"+strconv.Itoa(n), w.dir, []string{
		w.bench.informers, "-nats", strings.Join(w.URLs(), ","), "-token", plane.Token,
		"-kubeconfig", w.Apiservers[0].Kubeconfig, "-informers", strconv.Itoa(n),
	}, c.read)
	if err := c.process.Start(); err != nil {
		return nil, err
	}
	if _, err := c.answer(ctx); err != nil {
		c.process.Kill()
		return nil, fmt.Errorf("connecting %d informers: %w", n, err)
	}
	return c, nil
}

func (c *crowd) read(from io.Reader) {
	defer close(c.answers)
	lines := bufio.NewScanner(from)
	lines.Buffer(make([]byte, 64<<10), maxLine)
	for lines.Scan() {
		var a messages.Answer
		if err := json.Unmarshal(lines.Bytes(), &a); err != nil {
			return
		}
		c.answers <- a
	}
}

// ask sends the informers a command, and returns their answer.
func (c *crowd) ask(ctx context.Context, command ...any) (messages.Answer, error) {
	line := strings.TrimSuffix(fmt.Sprintln(command...), "\n")
	if err := c.process.Send(line); err != nil {
		return messages.Answer{}, fmt.Errorf("sending informers the command %s: %w", line, err)
	}
	a, err := c.answer(ctx)
	if err != nil {
		return a, fmt.Errorf("sending informers the command %s: %w", line, err)
	}
	return a, nil
}

func (c *crowd) answer(ctx context.Context) (messages.Answer, error) {
	select {
	case a, ok := <-c.answers:
		if !ok {
			return a, fmt.Errorf("%s ended; see its log", c.process.Name)
		}
		return a, nil
	case <-time.After(patience):
		return messages.Answer{}, fmt.Errorf("no answer in %v", patience)
	case <-ctx.Done():
		return messages.Answer{}, ctx.Err()
	}
}

// after returns how long after moment each time of an answer was, or 0 if it was before.
func after(moment time.Time, times []int64) []time.Duration {
	all := make([]time.Duration, len(times))
	for i, t := range times {
		all[i] = max(time.Unix(0, t).Sub(moment), 0)
	}
	return all
}

func durations(nanoseconds []int64) []time.Duration {
	all := make([]time.Duration, len(nanoseconds))
	for i, n := range nanoseconds {
		all[i] = time.Duration(n)
	}
	return all
}
