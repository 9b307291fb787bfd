// Package inspect gathers the status of the plane for its operators: what each process reports
// about itself over NATS, and the status of the etcd clusters, of NATS and of its log.
package inspect

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/garboard/garboard/libs/bus"
	"github.com/garboard/garboard/libs/report"
	"github.com/garboard/garboard/services/apiserver/internal/http/authn"
)

// Bounds on waiting and concurrency.
const (
	// natsPatience bounds how long NATS may take to report its status.
	natsPatience = 3 * time.Second
	// maxQueries bounds the concurrent queries, since each one goes to all processes.
	maxQueries = 4
	// busyRetry is after how many seconds a client that was turned away may retry.
	busyRetry = 2
)

// Conn is the bus: *bus.Conn.
type Conn interface {
	report.Conn
	AuthRequired() bool
	Server(ctx context.Context) (bus.ServerInfo, error)
	LogHealth(ctx context.Context, stream string) (bus.LogHealth, error)
}

// Etcd is one etcd cluster: *store.Store.
type Etcd interface {
	Status(ctx context.Context, election string) report.Etcd
}

// Cluster is what to inspect of one etcd cluster.
type Cluster struct {
	Etcd Etcd
	// Election is that of its publisher, Stream the log of its changes.
	Election, Stream string
}

// Config is what to inspect.
type Config struct {
	// Clusters are the etcd clusters, the main one first.
	Clusters []Cluster
	// Conn returns the bus, or nil while it has never been reached.
	Conn func() Conn
	// Self is the apiserver's own report.
	Self report.Self
	// Who returns the name of the user behind an identity on the bus, or "" for none.
	Who func(identity string) string
	// Patience is how long to wait for reports; report.DefaultPatience if 0.
	Patience time.Duration
}

// Inspector inspects the plane on request.
type Inspector struct {
	Config
	slots chan struct{}
}

// New returns an inspector.
func New(cfg Config) *Inspector {
	return &Inspector{Config: cfg, slots: make(chan struct{}, maxQueries)}
}

// enter takes a slot.
func (i *Inspector) enter() (leave func(), err error) {
	select {
	case i.slots <- struct{}{}:
		return func() { <-i.slots }, nil
	default:
		return nil, apierrors.NewTooManyRequests("too many requests for the status of the plane are in flight", busyRetry)
	}
}

// Status gathers everything there is to know. It reports what cannot be reached as unreachable, and
// takes some seconds at most.
func (i *Inspector) Status(ctx context.Context) (*report.Status, error) {
	leave, err := i.enter()
	if err != nil {
		return nil, err
	}
	defer leave()
	status := &report.Status{Apiserver: i.Self.Replica, Etcd: make([]report.Etcd, len(i.Clusters))}
	var together sync.WaitGroup
	for n, cluster := range i.Clusters {
		together.Go(func() { status.Etcd[n] = cluster.Etcd.Status(ctx, cluster.Election) })
	}
	together.Go(func() { status.NATS = i.nats(ctx) })
	together.Go(func() {
		answers, err := i.ask(ctx)
		if err != nil {
			status.Fault = err.Error()
		}
		own := func(a report.Answer) bool { return a.Service == i.Self.Service && a.Replica == i.Self.Replica }
		if !slices.ContainsFunc(answers, own) {
			answers = append(answers, report.Answer{Report: i.Self.Report(ctx)})
		}
		status.Answers = answers
	})
	together.Wait()
	status.Now = time.Now()
	return status, nil
}

// Watchers gathers what all informers follow.
func (i *Inspector) Watchers(ctx context.Context) ([]report.Watcher, error) {
	leave, err := i.enter()
	if err != nil {
		return nil, err
	}
	defer leave()
	answers, err := i.ask(ctx)
	if err != nil {
		return nil, apierrors.NewServiceUnavailable(err.Error())
	}
	return report.Watchers(answers), nil
}

// ask asks all processes for their reports.
func (i *Inspector) ask(ctx context.Context) ([]report.Answer, error) {
	conn := i.Conn()
	if conn == nil {
		return nil, fmt.Errorf("asking the processes of the plane for their reports: NATS was never reached: %w", bus.ErrDisconnected)
	}
	answers, err := report.Ask(ctx, conn, i.Patience, i.Who)
	if err != nil {
		return nil, fmt.Errorf("asking the processes of the plane for their reports: %w", err)
	}
	closed := conn.AuthRequired()
	return slices.DeleteFunc(answers, func(a report.Answer) bool { return closed && !genuine(a) }), nil
}

// genuine reports whether an answer's user may run the service that it claims to be, since any
// client of the bus may answer. Only apiservers have no user that the apiservers know.
func genuine(a report.Answer) bool {
	switch a.Service {
	case report.Apiserver:
		return a.User == ""
	case report.Controllers:
		return a.User == "system:kube-controller-manager"
	case report.Scheduler:
		return a.User == "system:kube-scheduler"
	case report.NodeAgent:
		return a.User == authn.NodePrefix+a.Replica
	}
	return a.User != ""
}

// nats returns the status of NATS.
func (i *Inspector) nats(ctx context.Context) report.NATS {
	conn := i.Conn()
	if conn == nil {
		return report.NATS{Fault: "NATS was never reached"}
	}
	ctx, cancel := context.WithTimeout(ctx, natsPatience)
	defer cancel()
	server, err := conn.Server(ctx)
	if err != nil {
		return report.NATS{Fault: err.Error()}
	}
	found := report.NATS{
		Server: server.Name, Version: server.Version, Servers: server.Known, Seconds: server.RoundTrip.Seconds(), Open: !conn.AuthRequired(),
	}
	for _, cluster := range i.Clusters {
		found.Streams = append(found.Streams, stream(ctx, conn, cluster.Stream))
	}
	return found
}

func stream(ctx context.Context, conn Conn, name string) report.Stream {
	found := report.Stream{Name: name}
	health, err := conn.LogHealth(ctx, name)
	if err != nil {
		found.Fault = err.Error()
		return found
	}
	found.Clustered, found.Wanted, found.Leader = health.Clustered, health.Wanted, health.Leader
	for _, r := range health.Others {
		found.Replicas = append(found.Replicas, report.Replica{Name: r.Name, Current: r.Current, Offline: r.Offline, Lag: r.Lag})
	}
	found.Messages, found.Bytes, found.MaxBytes = health.Messages, health.Bytes, max(health.MaxBytes, 0)
	found.Last, found.LastTime, found.Consumers = health.Last, health.LastTime, health.Consumers
	return found
}
