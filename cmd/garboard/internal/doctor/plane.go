package doctor

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/garboard/garboard/libs/report"
)

// The limits of a healthy plane.
const (
	// slowEtcd and slowNATS are the response times from which the plane is affected.
	slowEtcd = 500 * time.Millisecond
	slowNATS = 500 * time.Millisecond
	// fullWarn and fullFail are fractions of etcd's quota.
	fullWarn, fullFail = 0.8, 0.95
	// unapplied is the number of log entries that a member of etcd may have left to apply.
	unapplied = 1000
	// lagWarn and lagFail bound the time for which an informer may lag; silentWarn bounds the time
	// for which it may hear nothing, although something arrives every 5 s.
	lagWarn, lagFail = 10 * time.Second, time.Minute
	silentWarn       = 30 * time.Second
	// settling is the time that a starting process may need to read everything.
	settling = 2 * time.Minute
	// shown is the maximum number of names listed.
	shown = 5
)

const apiserver = report.Apiserver

// identityLabel and identityValue are the label of the leases that identify apiservers.
const (
	identityLabel = "apiserver.kubernetes.io/identity"
	identityValue = "kube-apiserver"
)

func isForbidden(err error) bool { return apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err) }

func sorted[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// some lists the first shown names.
func some(names []string) string {
	if len(names) <= shown {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:shown], ", "), len(names)-shown)
}

func checkApiservers(l list, f *Facts) {
	answered := 0
	for _, a := range f.Status.Answers {
		if a.Service != apiserver {
			continue
		}
		answered++
		var failed []string
		for _, name := range sorted(a.Checks) {
			if a.Checks[name] != "" {
				failed = append(failed, name+" ("+a.Checks[name]+")")
			}
		}
		if len(failed) > 0 {
			l.add(Fail, a.Replica, "unhealthy: "+strings.Join(failed, "; "), "Fix what the check names, or restart this apiserver if the others are healthy.")
		} else {
			l.ok(a.Replica, "every check passes; running since %s", date(a.Started))
		}
	}
	living := 0
	for _, lease := range f.Leases {
		if lease.Labels[identityLabel] == identityValue && age(lease, f.Now) < leaseLife(lease) {
			living++
		}
	}
	if living > answered {
		l.add(Warn, "replicas", fmt.Sprintf("%d renew their leases, %d answer over NATS", living, answered), "See the findings on NATS, and the logs of the apiservers that are not listed here.")
	}
	switch {
	case f.ApiserversErr != nil:
		l.add(Warn, "endpoints", f.ApiserversErr.Error(), "Use a kubeconfig that may list endpointslices in the namespace default.")
	case len(f.Apiservers) == 0:
		l.add(Warn, "endpoints", "the Service kubernetes has none: no apiserver listens on an address that pods can reach",
			"Give the apiservers an address of their machines with --listen or --advertise-address; garboard up chooses one when --listen is omitted. Until then pods cannot use the API.")
	default:
		l.ok("endpoints", "the Service kubernetes has the endpoints %s", some(f.Apiservers))
	}
}

func checkEtcd(l list, e report.Etcd) {
	if e.Fault != "" {
		l.add(Fail, "reads", e.Fault, "Make sure that a majority of etcd's members run and are reachable from the apiservers, with valid certificates; until then nothing can be read or written.")
	} else {
		took := time.Duration(e.Seconds * float64(time.Second))
		if took > slowEtcd {
			l.add(Warn, "reads", fmt.Sprintf("revision %d, but a read took %v", e.Revision, took.Round(time.Millisecond)), "Check etcd's disk (etcd_disk_wal_fsync_duration_seconds) and CPU.")
		} else {
			l.ok("reads", "revision %d in %v", e.Revision, took.Round(time.Millisecond))
		}
	}
	leaders := 0
	for _, m := range e.Members {
		name := m.Name
		if name == "" {
			name = m.Endpoint
		}
		if m.Leader {
			leaders++
		}
		switch {
		case m.Fault != "":
			l.add(Fail, "member "+name, m.Fault, "Start this member, or replace it; the cluster can only lose a minority of its members.")
		case m.Endpoint == "":
			l.ok("member "+name, "it is not in --etcd-servers, so its state is unknown")
		case m.Unapplied > unapplied:
			l.add(Warn, "member "+name, fmt.Sprintf("it has %d log entries left to apply", m.Unapplied), "Check this member's disk and network.")
		case m.Learner:
			l.add(Warn, "member "+name, "it is a learner, which does not vote", "Promote it (etcdctl member promote) once it has caught up.")
		default:
			role := "follower"
			if m.Leader {
				role = "leader"
			}
			l.ok("member "+name, "%s, etcd %s", role, m.Version)
		}
		checkQuota(l, name, m)
	}
	if e.Fault == "" && leaders == 0 && !slices.ContainsFunc(e.Members,
		func(m report.Member) bool { return m.Endpoint == "" || m.Fault != "" }) {
		l.add(Fail, "leader", "no member reports that it leads", "Wait for the election; if it does not complete, check the network between the members.")
	}
	for _, a := range e.Alarms {
		if a.Alarm == "NOSPACE" {
			l.add(Fail, "alarm", "NOSPACE at "+a.Member+": etcd refuses all writes", "Compact, defragment and disarm: docs/operate/etcd-quota.md.")
		} else {
			l.add(Fail, "alarm", a.Alarm+" at "+a.Member, "Replace this member at once: its data differs from that of the others.")
		}
	}
	if len(e.Alarms) == 0 && e.Fault == "" {
		l.ok("alarms", "none")
	}
}

func checkQuota(l list, name string, m report.Member) {
	if m.Quota <= 0 || m.Size == 0 {
		return
	}
	const advice = "Find out what fills it, defragment etcd, or raise --quota-backend-bytes: docs/operate/etcd-quota.md."
	part := float64(m.Size) / float64(m.Quota)
	says := fmt.Sprintf("%d MiB of %d MiB, of which %d MiB are in use", m.Size>>20, m.Quota>>20, m.InUse>>20)
	switch {
	case part >= fullFail:
		l.add(Fail, "size of "+name, says, advice)
	case part >= fullWarn:
		l.add(Warn, "size of "+name, says, advice)
	default:
		l.ok("size of "+name, "%s", says)
	}
}

func checkNATS(l list, s *report.Status) {
	n := s.NATS
	if n.Fault != "" {
		l.add(Fail, "connection", n.Fault, "Start NATS, or repair the connection to it and its certificates; meanwhile informers watch over HTTP, and pod logs cannot be read.")
		return
	}
	took := time.Duration(n.Seconds * float64(time.Second))
	if took > slowNATS {
		l.add(Warn, "connection", fmt.Sprintf("%s takes %v to answer", n.Server, took.Round(time.Millisecond)), "Check the load and the network of NATS.")
	} else {
		l.ok("connection", "%s, nats-server %s, in %v", n.Server, n.Version, took.Round(time.Millisecond))
	}
	if n.Open {
		l.add(Warn, "access", "NATS lets everybody in", "Let the apiservers authenticate the clients of NATS: docs/explanation/bus.md.")
	}
	if s.Fault != "" {
		l.add(Fail, "question", s.Fault, "The state of the other processes is unknown; see the findings on NATS above.")
	}
	for _, stream := range n.Streams {
		checkStream(l, stream)
	}
}

func checkStream(l list, s report.Stream) {
	name := "log " + s.Name
	if s.Fault != "" {
		l.add(Warn, name, s.Fault, "The publisher recreates it automatically; if it does not, make sure that JetStream is enabled and has space.")
		return
	}
	if s.Clustered && s.Leader == "" {
		l.add(Warn, name, "it has no leader", "Make sure that a majority of the NATS servers run; meanwhile watches continue, and the history has a gap.")
		return
	}
	var behind []string
	for _, r := range s.Replicas {
		if r.Offline {
			behind = append(behind, r.Name+" is offline")
		} else if !r.Current {
			behind = append(behind, fmt.Sprintf("%s is %d operations behind", r.Name, r.Lag))
		}
	}
	switch {
	case len(behind) > 0:
		l.add(Warn, name, strings.Join(behind, ", "), "Start the NATS servers that are offline; the others catch up by themselves.")
	case s.Clustered && len(s.Replicas)+1 < s.Wanted:
		l.add(Warn, name, fmt.Sprintf("%d of %d servers keep it", len(s.Replicas)+1, s.Wanted), "Start as many NATS servers as --nats-log-replicas requires.")
	case s.Consumers > 0:
		l.add(Warn, name, fmt.Sprintf("%d JetStream consumers read it", s.Consumers), "Garboard creates none: find out who did, since every message is delivered to each of them; read the history with garboard watch --since.")
	default:
		l.ok(name, "%d messages, %d MiB, up to sequence %d", s.Messages, s.Bytes>>20, s.Last)
	}
}

func checkPublishers(l list, s *report.Status) {
	for _, e := range s.Etcd {
		switch {
		case e.Fault != "":
		case e.Publisher == "":
			l.add(Fail, "of etcd "+e.Name, "no apiserver publishes its changes", "Make sure that the apiservers can reach NATS: one that does is elected at once.")
		default:
			l.ok("of etcd "+e.Name, "%s", e.Publisher)
		}
	}
}

func checkWatchers(l list, s *report.Status) {
	rows := report.Watchers(s.Answers)
	started := map[string]time.Time{}
	for _, a := range s.Answers {
		started[a.Replica] = a.Started
		if a.NotReady != "" {
			level := Fail
			if s.Now.Sub(a.Started) < settling {
				level = Warn
			}
			l.add(level, a.Service+" "+a.Replica, "not ready: "+a.NotReady, "See its log; a process that has just started needs a few seconds.")
		}
		if a.Omitted > 0 {
			l.ok(a.Service+" "+a.Replica, "its answer had no room for %d of its informers", a.Omitted)
		}
	}
	var behind, http, silent []string
	worst := time.Duration(0)
	for _, r := range rows {
		name := r.Service + " " + r.Replica + " " + r.Resource
		lag := time.Duration(r.LagSeconds * float64(time.Second))
		if lag > lagWarn {
			behind = append(behind, fmt.Sprintf("%s by %d revisions for %v", name, r.LagRevisions, lag.Round(time.Second)))
			worst = max(worst, lag)
		}
		if r.Via == "HTTP" {
			http = append(http, byHTTP(name, r.Why))
		}
		if r.Synced && r.Via != "HTTP" && time.Duration(r.SilentSeconds*float64(time.Second)) > silentWarn {
			silent = append(silent, name)
		}
	}
	if len(behind) > 0 {
		level := Warn
		if worst > lagFail {
			level = Fail
		}
		l.add(level, "lag", some(behind), "Run garboard watchers -w: a growing queue means a slow handler; a lag without one means slow delivery from NATS.")
	}
	if len(http) > 0 {
		l.add(Warn, "by HTTP", some(http), "Where NATS refuses the subscription, the right is newer than the connection, which is renewed within seconds, "+
			"or too many rights are scattered; else see their logs.")
	}
	if len(silent) > 0 {
		l.add(Warn, "silent", some(silent), "They have heard nothing for a long time: see the findings on the publisher and NATS.")
	}
	if len(rows) > 0 && len(behind)+len(http)+len(silent) == 0 {
		l.ok("lag", "%d informers of %d processes are not behind", len(rows), len(s.Answers))
	}
}

// byHTTP names an informer that does not follow over NATS, and says why if that is known.
func byHTTP(name, why string) string {
	if why == "" {
		return name
	}
	return name + " (" + why + ")"
}

func age(lease *coordinationv1.Lease, now time.Time) time.Duration {
	if lease.Spec.RenewTime == nil {
		return 1<<63 - 1
	}
	return now.Sub(lease.Spec.RenewTime.Time)
}

func leaseLife(lease *coordinationv1.Lease) time.Duration {
	if lease.Spec.LeaseDurationSeconds == nil {
		return 0
	}
	return time.Duration(*lease.Spec.LeaseDurationSeconds) * time.Second
}

func checkLeases(l list, f *Facts) {
	if f.LeasesErr != nil {
		l.add(Fail, "all", f.LeasesErr.Error(), "Use a kubeconfig that may list leases in kube-system.")
		return
	}
	for _, one := range []struct{ lease, service string }{{"kube-controller-manager", "controllers"}, {"kube-scheduler", "scheduler"}} {
		lease := f.Leases[one.lease]
		advice := "Start the " + one.service + ", or see in their logs why they cannot reach the API."
		switch {
		case lease == nil:
			l.add(Fail, one.service, "none has ever led", advice)
		case lease.Spec.HolderIdentity == nil || *lease.Spec.HolderIdentity == "":
			l.add(Fail, one.service, "none leads", advice)
		case lease.Spec.RenewTime == nil:
			l.add(Fail, one.service, *lease.Spec.HolderIdentity+" never renewed its lease", advice)
		case age(lease, f.serverNow()) > leaseLife(lease):
			l.add(Fail, one.service, fmt.Sprintf("%s has not renewed its lease for %s", *lease.Spec.HolderIdentity, long(age(lease, f.serverNow()))), advice)
		default:
			l.ok(one.service, "%s leads", *lease.Spec.HolderIdentity)
		}
	}
}

// serverNow returns the time by the apiserver's clock.
func (f *Facts) serverNow() time.Time {
	if f.Status != nil && !f.Status.Now.IsZero() {
		return f.Status.Now
	}
	return f.Now
}

func checkNodes(l list, f *Facts) {
	if f.NodesErr != nil {
		l.add(Fail, "all", f.NodesErr.Error(), "Use a kubeconfig that may list nodes, and leases in kube-node-lease.")
		return
	}
	if len(f.Nodes) == 0 {
		l.add(Warn, "all", "there is none", "Start a node agent: without one, pods stay Pending.")
		return
	}
	ready := 0
	for _, node := range f.Nodes {
		says, advice := "", "Check the node and its agent's log; its pods are replaced on other nodes after five minutes."
		for i := range node.Status.Conditions {
			c := &node.Status.Conditions[i]
			if c.Type == corev1.NodeReady && c.Status != corev1.ConditionTrue {
				says = fmt.Sprintf("it is not ready: %s: %s", c.Reason, c.Message)
			}
			if lacksNetwork(c) {
				advice = networkAdvice
			}
		}
		if lease := f.Heartbeats[node.Name]; lease == nil {
			says = "it never sent a heartbeat"
		} else if old := age(lease, f.serverNow()); old > leaseLife(lease) {
			says = fmt.Sprintf("its last heartbeat was %s ago", long(old))
		}
		if says != "" {
			l.add(Fail, node.Name, says, advice)
			continue
		}
		ready++
	}
	if ready > 0 {
		l.ok("ready", "%d of %d", ready, len(f.Nodes))
	}
}
