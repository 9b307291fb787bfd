// Command dns measures the node agent's DNS server beside CoreDNS, with the Corefile of kubeadm: CPU per name, how
// long answers take, and how soon a name is known after its endpoint is written. Both run at the same time on the
// same node, against the same apiserver and the same server for other names, and are asked in turn. It prints
// Markdown tables. It needs root, containerd and ip.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/garboard/garboard/bench/command"
	"github.com/garboard/garboard/bench/measure"
	"github.com/garboard/garboard/bench/node"
)

// settings has the flags.
type settings struct {
	coreDNS  string
	services int
	names    int
	clients  []int
	endpoint int
	repeats  int
}

func main() { command.Main("bench/dns", parse, run) }

func parse(args []string) (settings, error) {
	s := settings{clients: []int{1, 16}}
	set := flag.NewFlagSet("dns", flag.ExitOnError)
	set.StringVar(&s.coreDNS, "coredns", "", "binary of CoreDNS; if empty, only the node agent is measured")
	set.IntVar(&s.services, "services", 1000, "number of Services")
	set.IntVar(&s.names, "names", 20000, "names that are resolved per measurement")
	command.Numbers(set, &s.clients, "clients", "numbers of concurrent clients")
	set.IntVar(&s.endpoint, "endpoints", 200, "endpoints that are written, one after another, to see when their names are known")
	command.Repeats(set, &s.repeats)
	if err := set.Parse(args); err != nil {
		return s, err
	}
	if min(s.services, s.names, s.endpoint, s.repeats, slices.Min(s.clients)) < 1 {
		return s, errors.New("numbers must be above 0")
	}
	return s, nil
}

// bench is a running benchmark.
type bench struct {
	settings
	node   *node.Node
	report measure.Report
	sides  []side
}

// side is a DNS server.
type side struct {
	name    string
	address string
	program *node.Program
}

func run(ctx context.Context, s settings) error {
	if s.coreDNS != "" {
		path, err := filepath.Abs(s.coreDNS)
		if err != nil {
			return fmt.Errorf("finding CoreDNS: %w", err)
		}
		s.coreDNS = path
	}
	return node.Enter(ctx, func(ctx context.Context, dir string) (err error) {
		n, err := node.Start(ctx, dir)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, n.Close()) }()
		if err := n.Fill(ctx, 0, s.services); err != nil {
			return err
		}
		elsewhere, err := startUpstream(ctx)
		if err != nil {
			return err
		}
		defer elsewhere.end()
		b := &bench{settings: s, node: n, report: measure.Report{To: os.Stdout}}
		defer func() { err = errors.Join(err, b.stop()) }()
		if err := b.start(ctx); err != nil {
			return err
		}
		if err := b.questions(ctx); err != nil {
			return err
		}
		return b.fresh(ctx)
	})
}

const (
	// localAddress is the address of the agent's DNS server.
	localAddress = "169.254.20.10"
	// patience bounds every wait.
	patience = time.Minute
)

// corefile is that of kubeadm, with addresses of its own.
const corefile = `.:1053 {
    bind 127.0.0.1
    errors
    health 127.0.0.1:8080 {
       lameduck 5s
    }
    ready 127.0.0.1:8181
    kubernetes cluster.local in-addr.arpa ip6.arpa {
       kubeconfig %s
       pods insecure
       fallthrough in-addr.arpa ip6.arpa
       ttl 30
    }
    prometheus 127.0.0.1:9153
    forward . %s {
       max_concurrent 1000
    }
    cache 30 {
       disable success cluster.local
       disable denial cluster.local
    }
    loop
    reload
    loadbalance
}
`

// start starts both servers, and returns when they answer.
func (b *bench) start(ctx context.Context) error {
	agent, err := b.node.Agent("agent", "--service-proxy=false", "--dns", "--dns-stub-domains", ".="+upstreamAddress)
	if err != nil {
		return err
	}
	b.sides = append(b.sides, side{"Garboard", net.JoinHostPort(localAddress, "53"), agent})
	if b.coreDNS != "" {
		path := filepath.Join(b.node.Dir, "Corefile")
		if err := os.WriteFile(path, fmt.Appendf(nil, corefile, b.node.Kubeconfig(), upstreamAddress), 0o600); err != nil {
			return fmt.Errorf("configuring CoreDNS: %w", err)
		}
		coreDNS, err := node.Run(b.node.Dir, "coredns", b.coreDNS, "-conf", path)
		if err != nil {
			return err
		}
		b.sides = append(b.sides, side{"CoreDNS", "127.0.0.1:1053", coreDNS})
	}
	for _, s := range b.sides {
		if err := s.program.Wait(ctx, patience, func() bool { return b.answers(ctx, s) }); err != nil {
			return err
		}
	}
	return nil
}

func (b *bench) stop() error {
	var faults []error
	for _, s := range b.sides {
		faults = append(faults, s.program.Stop())
	}
	return errors.Join(faults...)
}
