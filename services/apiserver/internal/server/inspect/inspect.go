// Package inspect gathers how the plane is, for those who operate it: what each process says of
// itself over NATS, how the etcd clusters are, and how NATS and its log are.
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

// Bounds of what is waited for.
const (
	// natsPatience is how long NATS may take to say how it is.
	natsPatience = 3 * time.Second
	// places is how many may ask at a time: a question goes to all processes.
	places = 4
	// busyRetry is after how many seconds one comes again who finds no place.
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

// Cluster is what is looked at of one etcd cluster.
type Cluster struct {
	Etcd Etcd
	// Election is that of its publisher, Stream the log of its changes.
	Election, Stream string
}

// Config is what is looked at.
type Config struct {
	// Clusters are the etcd clusters, the main one first.
	Clusters []Cluster
	// Conn gives the bus; nil as long as it was not reached.
	Conn func() Conn
	// Self is the apiserver's own report.
	Self report.Self
	// Who gives the name of the user that an identity on the bus stands for; empty for none.
	Who func(identity string) string
	// Patience is how long answers are waited for; report.DefaultPatience if 0.
	Patience time.Duration
}

// Inspector looks at the plane whenever it is asked to.
type Inspector struct {
	Config
	place chan struct{}
}

// New makes an inspector.
func New(cfg Config) *Inspector { return &Inspector{Config: cfg, place: make(chan struct{}, places)} }

// enter takes a place.
func (i *Inspector) enter() (leave func(), err error) {
	select {
	case i.place <- struct{}{}:
		return func() { <-i.place }, nil
	default:
		return nil, apierrors.NewTooManyRequests("others are asking how the plane is", busyRetry)
	}
}

// Status gathers all there is to know. What cannot be reached is said to be so; it takes some
// seconds at most.
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
			answers = append(answers, report.Answer{Report: i.Self.Tell(ctx)})
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

// ask asks all processes.
func (i *Inspector) ask(ctx context.Context) ([]report.Answer, error) {
	conn := i.Conn()
	if conn == nil {
		return nil, fmt.Errorf("the processes of the plane cannot be asked how they are: NATS was never reached: %w", bus.ErrDisconnected)
	}
	answers, err := report.Ask(ctx, conn, i.Patience, i.Who)
	if err != nil {
		return nil, fmt.Errorf("the processes of the plane cannot be asked how they are: %w", err)
	}
	closed := conn.AuthRequired()
	return slices.DeleteFunc(answers, func(a report.Answer) bool { return closed && !genuine(a) }), nil
}

// genuine says whether an answer's user may be the service that he says he is: whoever reaches the
// bus may answer. Only apiservers have no user that the apiservers know.
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

// nats tells how NATS is.
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
