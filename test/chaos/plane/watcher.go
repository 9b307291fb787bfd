package plane

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/garboard/garboard/test/chaos/proxy"
	"github.com/garboard/garboard/test/chaos/record"
)

// maxLine bounds a line of the informers' output.
const maxLine = 64 << 20

// Watcher is a process of informers.
type Watcher struct {
	// Name is the name of the process.
	Name string
	// Informers is the number of informers it runs.
	Informers int
	// Proxies are its connections to the NATS servers.
	Proxies []*proxy.Proxy

	process *Process
}

// Watch starts a process of informers, which share some connections.
func (p *Plane) Watch(ctx context.Context, name string, informers, connections int) (*Watcher, error) {
	ways, urls, err := p.ways(ctx)
	if err != nil {
		return nil, err
	}
	w := &Watcher{Name: name, Informers: informers, Proxies: ways}
	w.process = NewProcess(name, p.cfg.Dir, []string{
		p.cfg.Binaries.Watcher, "-name", name, "-nats", strings.Join(urls, ","), "-kubeconfig", p.Apiservers[len(p.Apiservers)-1].Kubeconfig,
		"-token", Token, "-informers", fmt.Sprint(informers), "-connections", fmt.Sprint(connections),
	}, p.read)
	p.Watchers = append(p.Watchers, w)
	return w, w.process.Start()
}

// EndWatcher ends a process of informers that Watch started.
func (p *Plane) EndWatcher(w *Watcher) {
	w.Close()
	p.Watchers = slices.DeleteFunc(p.Watchers, func(other *Watcher) bool { return other == w })
}

// read reads the events that a process of informers reports.
func (p *Plane) read(from io.Reader) {
	lines := bufio.NewScanner(from)
	lines.Buffer(make([]byte, 64<<10), maxLine)
	for lines.Scan() {
		var e record.Event
		if err := json.Unmarshal(lines.Bytes(), &e); err == nil {
			p.cfg.OnEvent(e)
		}
	}
	_, _ = io.Copy(io.Discard, from)
}

// Close ends the process.
func (w *Watcher) Close() {
	_ = w.process.Signal(syscall.SIGCONT)
	w.process.Kill()
	closeAll(w.Proxies)
}

// Dump makes the process report the content of its informers.
func (w *Watcher) Dump() error { return w.say(record.DumpCommand) }

// Block makes handlers block for a while.
func (w *Watcher) Block(d time.Duration) error { return w.say(record.BlockCommand + " " + d.String()) }

// Stall makes followers stop consuming messages for a while.
func (w *Watcher) Stall(d time.Duration) error { return w.say(record.StallCommand + " " + d.String()) }

// Freeze stops the process without its noticing, until Thaw.
func (w *Watcher) Freeze() error { return w.process.Signal(syscall.SIGSTOP) }

// Thaw resumes a frozen process.
func (w *Watcher) Thaw() error { return w.process.Signal(syscall.SIGCONT) }

func (w *Watcher) say(line string) error {
	if err := w.process.Send(line); err != nil {
		return fmt.Errorf("sending %s the command %s: %w", w.Name, line, err)
	}
	return nil
}
