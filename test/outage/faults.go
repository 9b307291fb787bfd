package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// lasting is the duration of faults that last; it is longer than a lease.
const lasting = 20 * time.Second

// fault is a fault that is injected into a deployment.
type fault struct {
	name string
	// ha means that it needs three etcd and NATS servers, single that it needs one of each.
	ha, single bool
	// short means that it is part of the short form, once that it is injected once per run.
	short, once bool
	happen      func(ctx context.Context, s *stage) error
}

// faults returns all faults, in order.
func faults() []fault {
	var all []fault
	for _, service := range []string{"apiserver", "controllers", "scheduler", "nodeagent"} {
		all = append(all, fault{name: "scale " + service + " 1-3-1", short: true, happen: func(ctx context.Context, s *stage) error {
			for _, count := range []int{3, 1} {
				if err := s.project.Scale(ctx, map[string]int{service: count}); err != nil {
					return err
				}
			}
			if service == "nodeagent" {
				return s.retire(ctx, 2, 3)
			}
			return nil
		}})
	}
	for _, service := range []string{"etcd", "nats", "apiserver", "controllers", "scheduler", "nodeagent", "gateway"} {
		store := service == "etcd" || service == "nats"
		all = append(all,
			fault{name: "kill -9 " + service, short: true, single: store, happen: func(ctx context.Context, s *stage) error {
				return s.project.Crash(ctx, service, 1)
			}},
			fault{name: "pause " + service, single: store, happen: func(ctx context.Context, s *stage) error {
				return during(ctx, func() error { return s.project.Pause(ctx, service, 1) }, func() error { return s.project.Unpause(ctx, service, 1) })
			}},
		)
		if service != "gateway" {
			all = append(all, fault{name: "cut " + service + " off", short: service == "controllers", single: store, happen: func(ctx context.Context, s *stage) error {
				return during(ctx, func() error { return s.project.Disconnect(ctx, service, 1) },
					func() error { return s.project.Connect(ctx, service, 1) })
			}})
		}
	}
	all = append(all,
		fault{name: "kill -9 one of 3 apiservers", happen: ofThree("apiserver")},
		fault{name: "kill -9 the leading one of 3 controllers", happen: ofThree("controllers")},
		fault{name: "kill -9 the leading one of 3 schedulers", happen: ofThree("scheduler")},
		fault{name: "kill -9 etcd's leader", ha: true, short: true, happen: func(ctx context.Context, s *stage) error {
			return leader(ctx, s, etcdLeader, func(service string) error { return s.project.Crash(ctx, service, 1) })
		}},
		fault{name: "pause etcd's leader", ha: true, happen: func(ctx context.Context, s *stage) error {
			return leader(ctx, s, etcdLeader, func(service string) error {
				return during(ctx, func() error { return s.project.Pause(ctx, service, 1) }, func() error { return s.project.Unpause(ctx, service, 1) })
			})
		}},
		fault{name: "cut etcd's leader off", ha: true, happen: func(ctx context.Context, s *stage) error {
			return leader(ctx, s, etcdLeader, func(service string) error {
				return during(ctx, func() error { return s.project.Disconnect(ctx, service, 1) },
					func() error { return s.project.Connect(ctx, service, 1, "etcd") })
			})
		}},
		fault{name: "kill -9 the log's leader in NATS", ha: true, short: true, happen: func(ctx context.Context, s *stage) error {
			return leader(ctx, s, natsLeader, func(service string) error { return s.project.Crash(ctx, service, 1) })
		}},
		fault{name: "pause the log's leader in NATS", ha: true, happen: func(ctx context.Context, s *stage) error {
			return leader(ctx, s, natsLeader, func(service string) error {
				return during(ctx, func() error { return s.project.Pause(ctx, service, 1) }, func() error { return s.project.Unpause(ctx, service, 1) })
			})
		}},
		fault{name: "cut the log's leader in NATS off", ha: true, happen: func(ctx context.Context, s *stage) error {
			return leader(ctx, s, natsLeader, func(service string) error {
				return during(ctx, func() error { return s.project.Disconnect(ctx, service, 1) },
					func() error { return s.project.Connect(ctx, service, 1, "nats") })
			})
		}},
		fault{name: "replace every image", once: true, happen: replaceImages},
		fault{name: "fill etcd's quota", single: true, once: true, happen: fillQuota},
		fault{name: "restore etcd from a snapshot", single: true, once: true, happen: restore},
	)
	return all
}

// retire deletes nodes that will not come back, as an operator must after scaling nodes down.
func (s *stage) retire(ctx context.Context, numbers ...int) error {
	for _, number := range numbers {
		name := fmt.Sprintf("%s-nodeagent-%d", s.name, number)
		if err := until(ctx, recovery, func(ctx context.Context) error {
			err := s.clients.CoreV1().Nodes().Delete(ctx, name, metav1.DeleteOptions{})
			if apierrors.IsNotFound(err) {
				return nil
			}
			return err
		}); err != nil {
			return fmt.Errorf("deleting the node %s: %w", name, err)
		}
	}
	return nil
}

// during starts a fault, keeps it active for a while, and ends it.
func during(ctx context.Context, begin, end func() error) error {
	if err := begin(); err != nil {
		return err
	}
	select {
	case <-ctx.Done():
	case <-time.After(lasting):
	}
	return end()
}

// ofThree scales a service to three containers, kills the first one, which leads if the service has
// a leader, and scales back to one.
func ofThree(service string) func(ctx context.Context, s *stage) error {
	return func(ctx context.Context, s *stage) error {
		if err := s.project.Scale(ctx, map[string]int{service: 3}); err != nil {
			return err
		}
		for _, p := range s.probes.all() {
			p.Mark() // measure the kill, not the scaling
		}
		// The first one has run all along, so it leads.
		if err := s.project.Crash(ctx, service, 1); err != nil {
			return err
		}
		if err := s.recovered(ctx, time.Now()); err != nil {
			return err
		}
		return s.project.Scale(ctx, map[string]int{service: 1})
	}
}

// leader applies do to the leading container.
func leader(ctx context.Context, s *stage, find func(ctx context.Context, s *stage) (string, error), do func(service string) error) error {
	service, err := find(ctx, s)
	if err != nil {
		return err
	}
	return do(service)
}

// etcdLeader returns the compose service of etcd's leader.
func etcdLeader(ctx context.Context, s *stage) (string, error) {
	var errs []error
	for i := range 3 {
		service := fmt.Sprint("etcd-", i+1)
		printed, err := s.project.Exec(ctx, service, 1, "etcdctl", "--endpoints=https://127.0.0.1:2379",
			"--cacert=/pki/etcd-ca.crt", "--cert=/pki/client.crt", "--key=/pki/client.key", "endpoint", "status", "-w", "json")
		var status []struct {
			Status struct {
				Header struct {
					Member uint64 `json:"member_id"`
				} `json:"header"`
				Leader uint64 `json:"leader"`
			} `json:"Status"`
		}
		if err == nil {
			err = json.Unmarshal([]byte(printed), &status)
		}
		if err != nil {
			errs = append(errs, err)
			continue
		}
		if len(status) == 1 && status[0].Status.Leader == status[0].Status.Header.Member {
			return service, nil
		}
	}
	return "", errors.Join(append(errs, errors.New("no etcd member reports that it leads"))...)
}

// natsLeader returns the compose service of the NATS server that leads the log of watch messages.
func natsLeader(ctx context.Context, s *stage) (string, error) {
	printed, err := s.project.Exec(ctx, "nats-1", 1, "wget", "-q", "-O", "-", "http://127.0.0.1:8222/jsz?streams=true")
	if err != nil {
		return "", err
	}
	var state struct {
		Accounts []struct {
			Streams []struct {
				Name    string `json:"name"`
				Cluster struct {
					Leader string `json:"leader"`
				} `json:"cluster"`
			} `json:"stream_detail"`
		} `json:"account_details"`
	}
	if err := json.Unmarshal([]byte(printed), &state); err != nil {
		return "", fmt.Errorf("reading NATS's report about its streams: %w", err)
	}
	for _, account := range state.Accounts {
		for _, stream := range account.Streams {
			if stream.Name == "GARBOARD_WATCH" && strings.HasPrefix(stream.Cluster.Leader, "nats-") {
				return stream.Cluster.Leader, nil
			}
		}
	}
	return "", fmt.Errorf("no NATS server leads the log: %s", printed)
}
