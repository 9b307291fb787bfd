package doctor

import (
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"net"
	"net/netip"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/garboard/garboard/libs/informer/watcher"
	"github.com/garboard/garboard/libs/report"
)

var now = time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)

func certificate(left time.Duration) report.Certificate {
	return report.Certificate{Use: "client", Subject: "CN=jane", NotBefore: now.Add(-time.Hour), NotAfter: now.Add(left)}
}

func lease(name, holder string, age time.Duration) *coordinationv1.Lease {
	seconds, renewed := int32(15), metav1.NewMicroTime(now.Add(-age))
	return &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: coordinationv1.LeaseSpec{HolderIdentity: &holder, RenewTime: &renewed, LeaseDurationSeconds: &seconds},
	}
}

// healthy returns the facts of a healthy plane.
func healthy() *Facts {
	answer := func(service, replica string) report.Answer {
		a := report.Answer{Report: report.Report{
			Service: service, Replica: replica, Version: "v1", Now: now, Started: now.Add(-time.Hour), Certificates: []report.Certificate{certificate(300 * 24 * time.Hour)},
		}}
		if service == apiserver {
			a.Checks = map[string]string{"etcd": "", "nats": ""}
		} else {
			a.Watchers = []watcher.Status{{Service: service, Resource: "pods", Started: true, Synced: true, Via: "NATS", SilentSeconds: 3}}
		}
		return a
	}
	own := lease("apiserver-x", "a1", time.Second)
	own.Labels = map[string]string{identityLabel: identityValue}
	return &Facts{
		Now: now, Version: "v1", Server: "https://api:6443",
		Chain:  []*x509.Certificate{{Subject: pkix.Name{CommonName: "api"}, NotBefore: now.Add(-time.Hour), NotAfter: now.Add(300 * 24 * time.Hour)}},
		Client: []report.Certificate{certificate(300 * 24 * time.Hour)},
		Ready:  "[+]ping ok\nreadyz check passed\n", ReadyCode: 200, ServerTime: now, Took: time.Millisecond,
		Status: &report.Status{
			Apiserver: "a1", Now: now,
			Etcd: []report.Etcd{{
				Name: "main", Revision: 7, Seconds: 0.01, Publisher: "a1",
				Members: []report.Member{{Endpoint: "e1", Name: "one", ID: "1", Version: "3.7.3", Leader: true, Size: 10 << 20, InUse: 5 << 20, Quota: 2 << 30}, {Name: "two", ID: "2"}},
			}},
			NATS:    report.NATS{Server: "n1", Version: "2.15.2", Streams: []report.Stream{{Name: "LOG", Clustered: true, Wanted: 2, Leader: "n1", Replicas: []report.Replica{{Name: "n2", Current: true}}}}},
			Answers: []report.Answer{answer(apiserver, "a1"), answer("controllers", "c1"), answer("scheduler", "s1"), answer("nodeagent", "node")},
		},
		Leases: map[string]*coordinationv1.Lease{
			"kube-controller-manager": lease("kube-controller-manager", "c1", 2*time.Second), "kube-scheduler": lease("kube-scheduler", "s1", 2*time.Second), own.Name: own,
		},
		Nodes: []*corev1.Node{{
			ObjectMeta: metav1.ObjectMeta{Name: "node"}, Spec: corev1.NodeSpec{PodCIDR: "10.244.0.0/24", PodCIDRs: []string{"10.244.0.0/24"}},
			Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}},
		}},
		Heartbeats: map[string]*coordinationv1.Lease{"node": lease("node", "node", time.Second)},
		Apiservers: []string{"192.0.2.1"},
		Network: Network{
			DNS: &corev1.Service{Spec: corev1.ServiceSpec{ClusterIP: "10.96.0.10"}}, Ranges: []netip.Prefix{netip.MustParsePrefix("10.96.0.0/12")},
		},
	}
}

func TestHealthy(t *testing.T) {
	findings := Check(healthy())
	for _, f := range findings {
		if f.Level != OK || f.Advice != "" {
			t.Errorf("%+v", f)
		}
	}
	if findings.ExitCode() != 0 {
		t.Errorf("the exit code is %d", findings.ExitCode())
	}
	var groups []string
	for _, f := range findings {
		if !slices.Contains(groups, f.Group) {
			groups = append(groups, f.Group)
		}
	}
	want := "API, Apiservers, etcd main, NATS, Publisher, Informers, Leases, Nodes, Network, Storage, Autoscaling, Aggregated APIs, Extension, Contention, Clocks, Versions, Certificates"
	if got := strings.Join(groups, ", "); got != want {
		t.Errorf("the groups are %s; want %s", got, want)
	}
}

// TestBroken breaks one thing at a time and checks that exactly that is found.
func TestBroken(t *testing.T) {
	for _, tc := range []struct {
		name        string
		spoil       func(*Facts)
		level       Level
		group, what string // of the finding
		says        string
		advice      string
		more        int // other findings that are not OK
	}{
		{"no listener", func(f *Facts) { f.Dial = &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED} }, Fail, "API", "connection", "cannot be reached", "Nothing listens there", 0},
		{"no such host", func(f *Facts) { f.Dial = &net.DNSError{Err: "no such host", Name: "api"} }, Fail, "API", "connection", "no such host", "DNS", 0},
		{"another authority", func(f *Facts) { f.Trust = x509.UnknownAuthorityError{} }, Fail, "API", "trust", "unknown authority", "another certificate authority", 0},
		{"another name", func(f *Facts) {
			f.Trust = x509.HostnameError{Certificate: &x509.Certificate{DNSNames: []string{"other"}}, Host: "api"}
		}, Fail, "API", "trust", "not api", "--hosts", 0},
		{"the serving certificate ended", func(f *Facts) { f.Chain[0].NotAfter = now.Add(-50 * time.Hour) }, Fail, "API", "serving certificate", "ended 2 days ago", "restart", 0},
		{"the client certificate ends", func(f *Facts) { f.Client[0] = certificate(10 * 24 * time.Hour) }, Warn, "API", "client certificate", "ends in 10 days", "new kubeconfig", 0},
		{"it ends tomorrow", func(f *Facts) { f.Client[0] = certificate(20 * time.Hour) }, Fail, "API", "client certificate", "ends in 20 hours", "new kubeconfig", 0},
		{"it has not begun", func(f *Facts) { f.Client[0].NotBefore = now.Add(time.Hour) }, Fail, "API", "client certificate", "not valid before", "clocks", 0},
		{"no credential", func(f *Facts) { f.Client = nil }, Warn, "API", "credential", "neither", "credential", 0},
		{"not let in", func(f *Facts) { f.ReadyCode = 401 }, Fail, "API", "ready", "401", "new kubeconfig", 0},
		{"not ready", func(f *Facts) {
			f.ReadyCode, f.Ready = 500, "[+]ping ok\n[-]etcd failed: reason withheld\nreadyz check failed\n"
		}, Fail, "API", "ready", "etcd failed: reason withheld", "the failed check", 0},
		{"no answer", func(f *Facts) { f.ReadyErr = errors.New("cut") }, Fail, "API", "ready", "cut", "log", 0},
		{"no permission", func(f *Facts) {
			f.Status, f.StatusErr = nil, apierrors.NewForbidden(schema.GroupResource{}, "", errors.New("no"))
		}, Fail, "Plane", "status", "forbidden", report.StatusPath, 0},
		{"a failed status", func(f *Facts) { f.Status, f.StatusErr = nil, errors.New("boom") }, Fail, "Plane", "status", "boom", "log", 0},
		{"no endpoint for pods", func(f *Facts) { f.Apiservers = nil }, Warn, "Apiservers", "endpoints", "the Service kubernetes has none", "--listen", 0},
		{"unknown endpoints", func(f *Facts) { f.Apiservers, f.ApiserversErr = nil, errors.New("forbidden") }, Warn, "Apiservers", "endpoints", "forbidden", "list endpointslices", 0},
		{"an apiserver's check", func(f *Facts) { f.Status.Answers[0].Checks["watch-cache"] = "pods are behind" }, Fail, "Apiservers", "a1", "watch-cache (pods are behind)", "restart", 0},
		{"an apiserver does not answer", func(f *Facts) {
			other := lease("apiserver-y", "a2", time.Second)
			other.Labels = map[string]string{identityLabel: identityValue}
			f.Leases[other.Name] = other
		}, Warn, "Apiservers", "replicas", "2 renew their leases, 1 answer", "NATS", 0},
		{"etcd away", func(f *Facts) { f.Status.Etcd[0] = report.Etcd{Name: "main", Fault: "no leader"} }, Fail, "etcd main", "reads", "no leader", "majority", 0},
		{"etcd slow", func(f *Facts) { f.Status.Etcd[0].Seconds = 0.9 }, Warn, "etcd main", "reads", "900ms", "disk", 0},
		{"a member away", func(f *Facts) { f.Status.Etcd[0].Members[1] = report.Member{Endpoint: "e2", Fault: "gone"} }, Fail, "etcd main", "member e2", "gone", "Start this member", 0},
		{"a member behind", func(f *Facts) { f.Status.Etcd[0].Members[0].Unapplied = 5000 }, Warn, "etcd main", "member one", "5000", "disk", 0},
		{"a learner", func(f *Facts) {
			f.Status.Etcd[0].Members[1] = report.Member{Endpoint: "e2", Name: "two", ID: "2", Learner: true}
		}, Warn, "etcd main", "member two", "learner", "promote", 0},
		{"no leader", func(f *Facts) { f.Status.Etcd[0].Members = []report.Member{{Endpoint: "e1", Name: "one", ID: "1"}} }, Fail, "etcd main", "leader", "no member", "election", 0},
		{"nearly full", func(f *Facts) { f.Status.Etcd[0].Members[0].Size = 1700 << 20 }, Warn, "etcd main", "size of one", "1700 MiB of 2048 MiB", "etcd-quota.md", 0},
		{"full", func(f *Facts) { f.Status.Etcd[0].Members[0].Size = 2040 << 20 }, Fail, "etcd main", "size of one", "2040 MiB", "etcd-quota.md", 0},
		{"no room", func(f *Facts) { f.Status.Etcd[0].Alarms = []report.Alarm{{Member: "one", Alarm: "NOSPACE"}} }, Fail, "etcd main", "alarm", "NOSPACE at one", "etcd-quota.md", 0},
		{"corrupt", func(f *Facts) { f.Status.Etcd[0].Alarms = []report.Alarm{{Member: "one", Alarm: "CORRUPT"}} }, Fail, "etcd main", "alarm", "CORRUPT", "Replace", 0},
		{"NATS away", func(f *Facts) { f.Status.NATS = report.NATS{Fault: "not connected"} }, Fail, "NATS", "connection", "not connected", "Start NATS", 0},
		{"NATS slow", func(f *Facts) { f.Status.NATS.Seconds = 1 }, Warn, "NATS", "connection", "1s", "load", 0},
		{"NATS open", func(f *Facts) { f.Status.NATS.Open = true }, Warn, "NATS", "access", "everybody", "docs/explanation/bus.md", 0},
		{"no answers over NATS", func(f *Facts) { f.Status.Fault = "timeout" }, Fail, "NATS", "question", "timeout", "NATS", 0},
		{"no log", func(f *Facts) { f.Status.NATS.Streams[0].Fault = "none" }, Warn, "NATS", "log LOG", "none", "JetStream", 0},
		{"a log without a leader", func(f *Facts) { f.Status.NATS.Streams[0].Leader = "" }, Warn, "NATS", "log LOG", "no leader", "majority", 0},
		{"a replica away", func(f *Facts) { f.Status.NATS.Streams[0].Replicas[0].Offline = true }, Warn, "NATS", "log LOG", "n2 is offline", "Start", 0},
		{"a replica behind", func(f *Facts) {
			f.Status.NATS.Streams[0].Replicas[0] = report.Replica{Name: "n2", Lag: 9}
		}, Warn, "NATS", "log LOG", "9 operations behind", "catch up", 0},
		{"a replica too few", func(f *Facts) { f.Status.NATS.Streams[0].Wanted = 3 }, Warn, "NATS", "log LOG", "2 of 3 servers keep it", "--nats-log-replicas", 0},
		{"a consumer", func(f *Facts) { f.Status.NATS.Streams[0].Consumers = 2 }, Warn, "NATS", "log LOG", "2 JetStream consumers", "garboard watch", 0},
		{"no publisher", func(f *Facts) { f.Status.Etcd[0].Publisher = "" }, Fail, "Publisher", "of etcd main", "no apiserver", "elected", 0},
		{"an informer behind", func(f *Facts) {
			f.Status.Answers[1].Watchers[0].LagRevisions, f.Status.Answers[1].Watchers[0].LagSeconds = 5, 20
		}, Warn, "Informers", "lag", "controllers c1 pods by 5 revisions for 20s", "garboard watchers", 0},
		{"far behind", func(f *Facts) {
			f.Status.Answers[1].Watchers[0].LagRevisions, f.Status.Answers[1].Watchers[0].LagSeconds = 5, 90
		}, Fail, "Informers", "lag", "1m30s", "garboard watchers", 0},
		{"over HTTP", func(f *Facts) { f.Status.Answers[3].Watchers[0].Via = "HTTP" }, Warn, "Informers", "by HTTP", "nodeagent node pods", "NATS", 0},
		{"over HTTP, and why", func(f *Facts) {
			f.Status.Answers[3].Watchers[0].Via, f.Status.Answers[3].Watchers[0].Why = "HTTP", "NATS refuses the subscription"
		}, Warn, "Informers", "by HTTP", "nodeagent node pods (NATS refuses the subscription)", "renewed within seconds", 0},
		{"silent", func(f *Facts) { f.Status.Answers[3].Watchers[0].SilentSeconds = 99 }, Warn, "Informers", "silent", "nodeagent node pods", "publisher", 0},
		{"not ready for long", func(f *Facts) { f.Status.Answers[2].NotReady = "pods are unsynced" }, Fail, "Informers", "scheduler s1", "pods are unsynced", "log", 0},
		{"not ready yet", func(f *Facts) {
			f.Status.Answers[2].NotReady, f.Status.Answers[2].Started = "pods are unsynced", now.Add(-time.Second)
		}, Warn, "Informers", "scheduler s1", "pods are unsynced", "log", 0},
		{"controllers dead", func(f *Facts) { f.Leases["kube-controller-manager"] = lease("", "c1", time.Minute) }, Fail, "Leases", "controllers", "c1 has not renewed its lease for 1m0s", "Start the controllers", 0},
		{"controllers never ran", func(f *Facts) { delete(f.Leases, "kube-controller-manager") }, Fail, "Leases", "controllers", "none has ever led", "Start the controllers", 0},
		{"given up", func(f *Facts) { f.Leases["kube-scheduler"] = lease("", "", time.Second) }, Fail, "Leases", "scheduler", "none leads", "Start the scheduler", 0},
		{"no leases", func(f *Facts) { f.LeasesErr = errors.New("forbidden") }, Fail, "Leases", "all", "forbidden", "kubeconfig", 0},
		{"a node not ready", func(f *Facts) {
			f.Nodes[0].Status.Conditions[0] = corev1.NodeCondition{Type: corev1.NodeReady, Status: corev1.ConditionFalse, Reason: "NoNetwork", Message: "none"}
		}, Fail, "Nodes", "node", "NoNetwork", "agent's log", 0},
		{"a node silent", func(f *Facts) { f.Heartbeats["node"] = lease("node", "node", 3*time.Minute) }, Fail, "Nodes", "node", "heartbeat was 3m0s ago", "agent's log", 0},
		{"a node without a heartbeat", func(f *Facts) { f.Heartbeats = nil }, Fail, "Nodes", "node", "never", "agent's log", 0},
		{"no nodes", func(f *Facts) { f.Nodes = nil }, Warn, "Nodes", "all", "there is none", "Start a node agent", 0},
		{"this clock", func(f *Facts) { f.ServerTime = now.Add(10 * time.Second) }, Warn, "Clocks", "this machine and the apiserver", "10s ahead", "NTP", 0},
		{"another's clock", func(f *Facts) { f.Status.Answers[3].Behind = 100 }, Fail, "Clocks", "nodeagent node", "1m40s behind", "NTP", 0},
		{"versions", func(f *Facts) { f.Status.Answers[3].Version = "v2" }, Warn, "Versions", "services", "v2: nodeagent node", "upgrade", 0},
		{"this version", func(f *Facts) { f.Version = "v0" }, Warn, "Versions", "this program", "its version is v0", "garboard command", 0},
		{"a service's certificate", func(f *Facts) { f.Status.Answers[1].Certificates[0] = certificate(-time.Hour) }, Fail, "Certificates", "client of controllers c1", "ended", "Renew", 0},
		{"one that cannot be read", func(f *Facts) {
			f.Status.Answers[1].Certificates[0] = report.Certificate{Use: "client", Fault: "no file"}
		}, Fail, "Certificates", "client of controllers c1", "no file", "Renew", 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f := healthy()
			tc.spoil(f)
			findings := Check(f)
			var bad Findings
			for _, one := range findings {
				if one.Level != OK {
					bad = append(bad, one)
				}
			}
			i := slices.IndexFunc(bad, func(one Finding) bool { return one.Group == tc.group && one.Name == tc.what })
			if i < 0 || len(bad) != 1+tc.more {
				t.Fatalf("found %+v; want one of %s: %s", bad, tc.group, tc.what)
			}
			if found := bad[i]; found.Level != tc.level || !strings.Contains(found.Says, tc.says) || !strings.Contains(found.Advice, tc.advice) || found.Advice == "" {
				t.Errorf("found %+v; want %s, %q, %q", found, tc.level, tc.says, tc.advice)
			}
			if want := map[Level]int{Warn: 1, Fail: 2}[tc.level]; findings.ExitCode() != want {
				t.Errorf("the exit code is %d, want %d", findings.ExitCode(), want)
			}
		})
	}
}

// TestForeignPrograms: the reports of other programs cause no findings.
func TestForeignPrograms(t *testing.T) {
	f := healthy()
	f.Status.Answers = append(f.Status.Answers, report.Answer{Report: report.Report{
		Service: "sheep", Replica: "x", Version: "v9", NotReady: "grazing", Watchers: []watcher.Status{{LagRevisions: 9, LagSeconds: 900}},
	}, Behind: 1000})
	if findings := Check(f); findings.Worst() != OK {
		t.Errorf("found %+v", findings)
	}
}

func TestText(t *testing.T) {
	var b strings.Builder
	f := Findings{{"API", "ready", OK, "yes", ""}, {"API", "trust", Fail, "no\x1b[2J", "Do this."}, {"NATS", "log", Warn, "odd", "Do that."}}
	if err := f.Write(&b); err != nil {
		t.Fatal(err)
	}
	want := `API
  OK    ready: yes
  FAIL  trust: no?[2J
        -> Do this.

NATS
  WARN  log: odd
        -> Do that.

1 OK, 1 WARN, 1 FAIL
`
	if b.String() != want {
		t.Errorf("it says\n%s\nwant\n%s", b.String(), want)
	}
}
