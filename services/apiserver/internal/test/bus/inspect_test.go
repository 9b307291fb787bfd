package bus_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/garboard/garboard/libs/bus"
	"github.com/garboard/garboard/libs/informer/watcher"
	"github.com/garboard/garboard/libs/report"
	"github.com/garboard/garboard/services/apiserver"
	"github.com/garboard/garboard/services/apiserver/internal/test/harness"
)

func planeStatus(s *harness.Server) report.Status {
	s.T.Helper()
	res, body := s.Exchange(s.Admin(), "GET", report.StatusPath, "", nil)
	var status report.Status
	if err := json.Unmarshal([]byte(body), &status); err != nil || res.StatusCode != 200 {
		s.T.Fatalf("got %s %s: %v", res.Status, body, err)
	}
	return status
}

// telling has a client of NATS respond with its report.
func telling(t *testing.T, conn *bus.Conn, self report.Self) {
	t.Helper()
	done := make(chan error, 1)
	go func() { done <- report.Serve(t.Context(), conn, self) }()
	t.Cleanup(func() {
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

func TestStatus(t *testing.T) {
	t.Parallel()
	s := harness.StartWith(t, func(cfg *apiserver.Config) { cfg.Version = "v7" })
	telling(t, s.OnBus("system:kube-scheduler"), report.Self{
		Service: "scheduler", Replica: "s1", Watchers: func() []watcher.Status {
			return []watcher.Status{{Service: "scheduler", Version: "v1", Resource: "pods", Revision: 7, Via: watcher.ViaNATS}}
		},
	})
	// A report that claims another identity is rejected.
	telling(t, s.OnBus("system:kube-controller-manager"), report.Self{Service: "apiserver", Replica: "forged"})
	telling(t, s.OnBus("system:node:n1"), report.Self{Service: report.NodeAgent, Replica: "n2"})
	var status report.Status
	harness.Eventually(t, "all processes report in time and without faults, and a publisher is elected", func() bool {
		status = planeStatus(s)
		for _, answer := range status.Answers {
			for _, fault := range answer.Checks {
				if fault != "" {
					return false
				}
			}
		}
		return len(status.Answers) >= 2 && status.Etcd[0].Publisher != "" && status.Etcd[0].Fault == "" &&
			len(status.NATS.Streams) == 1 && status.NATS.Streams[0].Fault == "" && status.NATS.Streams[0].Messages > 0
	})
	if len(status.Answers) != 2 {
		t.Fatalf("got the reports %+v, want two", status.Answers)
	}
	// The apiserver's own report comes last if the apiserver could not be asked over NATS in time.
	slices.SortFunc(status.Answers, func(a, b report.Answer) int { return strings.Compare(a.Service, b.Service) })
	own, other := status.Answers[0], status.Answers[1]
	if own.Service != "apiserver" || own.Replica != status.Apiserver || own.Version != "v7" || own.User != "" || own.Started.IsZero() {
		t.Errorf("the apiserver reports %+v", own)
	}
	for _, check := range []string{"ping", "etcd", "watch-cache", "nats"} {
		if fault, ok := own.Checks[check]; !ok || fault != "" {
			t.Errorf("the apiserver's check %s: got %q, %v", check, fault, ok)
		}
	}
	if len(own.Certificates) != 2 || own.Certificates[0].Use != "serving" || own.Certificates[0].NotAfter.Before(time.Now()) || own.Certificates[1].Use != "authority" {
		t.Errorf("got the apiserver's certificates %+v", own.Certificates)
	}
	if other.Replica != "s1" || other.User != "system:kube-scheduler" {
		t.Errorf("the scheduler reports %+v", other)
	}
	etcd := status.Etcd[0]
	if etcd.Name != "main" || etcd.Fault != "" || etcd.Revision == 0 || etcd.Publisher != own.Replica || len(etcd.Members) != 1 || !etcd.Members[0].Leader || etcd.Members[0].Quota == 0 || etcd.Members[0].Name != "default" {
		t.Errorf("got the state of etcd %+v", etcd)
	}
	if n := status.NATS; n.Fault != "" || n.Open || n.Version == "" || n.Streams[0].Name != "GARBOARD_WATCH" || n.Streams[0].Consumers != 0 || n.Streams[0].Messages == 0 {
		t.Errorf("got the state of NATS %+v", n)
	}
	var body string
	var rows []report.Watcher
	var err error
	harness.Eventually(t, "the scheduler reports in time", func() bool {
		_, body = s.Exchange(s.Admin(), "GET", report.WatchersPath, "", nil)
		rows = nil
		err = json.Unmarshal([]byte(body), &rows)
		return err != nil || len(rows) > 0
	})
	if err != nil || len(rows) != 1 || rows[0].Replica != "s1" || rows[0].Resource != "pods" || rows[0].Revision != 7 || rows[0].User != "system:kube-scheduler" {
		t.Errorf("got the watchers %s (%v)", body, err)
	}
}

func TestStatusIsForAdministrators(t *testing.T) {
	t.Parallel()
	s := harness.Start(t)
	for _, path := range []string{report.StatusPath, report.WatchersPath} {
		for name, config := range map[string]*rest.Config{"controllers": s.Service("system:kube-controller-manager"), "anonymous": rest.AnonymousClientConfig(s.Admin())} {
			if res, body := s.Exchange(config, "GET", path, "", nil); res.StatusCode != 403 || !strings.Contains(body, "cannot get path") {
				t.Errorf("%s reads %s: got %s %s", name, path, res.Status, body)
			}
		}
		if res, _ := s.Exchange(s.Admin(), "POST", path, "", nil); res.StatusCode != 405 {
			t.Errorf("POST %s: %s", path, res.Status)
		}
	}
}

// TestOnlyApiserversAsk: no client may ask the other processes for their reports, or receive these.
func TestOnlyApiserversAsk(t *testing.T) {
	t.Parallel()
	s := harness.Start(t)
	telling(t, s.OnBus("system:kube-scheduler"), report.Self{Service: "scheduler", Replica: "s1"})
	harness.Eventually(t, "the scheduler reports", func() bool { return len(planeStatus(s).Answers) == 2 })
	spy := s.OnBus("system:kube-controller-manager")
	answers, err := report.Ask(t.Context(), spy, 2*time.Second, func(string) string { return "" })
	if len(answers) > 0 {
		t.Errorf("a client asked, and received %+v (%v)", answers, err)
	}
}

// TestStatusWithoutNATS: the status soon reports what cannot be reached.
func TestStatusWithoutNATS(t *testing.T) {
	t.Parallel()
	s := harness.Start(t)
	harness.Eventually(t, "NATS is reachable", func() bool { return planeStatus(s).NATS.Fault == "" })
	s.Bus.Stop()
	var status report.Status
	harness.Eventually(t, "NATS is reported unreachable, and etcd reachable", func() bool {
		status = planeStatus(s)
		return status.NATS.Fault != "" && status.Fault != "" && len(status.Answers) == 1 && status.Answers[0].Checks["etcd"] == ""
	})
	if status.Fault == "" || len(status.Answers) != 1 || status.Answers[0].Checks["nats"] == "" || status.Answers[0].Checks["etcd"] != "" {
		t.Errorf("got the status %+v", status)
	}
	if res, body := s.Exchange(s.Admin(), "GET", report.WatchersPath, "", nil); res.StatusCode != 503 || !strings.Contains(body, "asking the processes of the plane for their reports") {
		t.Errorf("the watchers: got %s %s", res.Status, body)
	}
}
