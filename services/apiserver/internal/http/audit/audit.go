package audit

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"

	"github.com/garboard/garboard/services/apiserver/internal/http/authn"
	"github.com/garboard/garboard/services/apiserver/internal/http/authz"
)

// maxUserAgent bounds how much of a client's name is written down, as in Kubernetes.
const maxUserAgent = 1024

// ErrNotStored says that a request is refused since it could not be written down.
var ErrNotStored = errors.New("failed to store audit event")

// Config is what an auditor writes and where.
type Config struct {
	// Policy says what is written down.
	Policy *Policy
	// File says where.
	File File
	// Mode is how requests wait for that.
	Mode Mode
	// Logger takes what goes wrong.
	Logger *slog.Logger
	// Registerer gets the metrics.
	Registerer prometheus.Registerer
}

// Auditor writes down what requests do. A nil one writes nothing.
type Auditor struct {
	policy  *Policy
	sink    *sink
	mode    Mode
	metrics *metrics
	log     *slog.Logger
}

// New makes an auditor; its Run writes.
func New(cfg Config) *Auditor {
	metrics := newMetrics(cfg.Registerer)
	return &Auditor{
		policy: cfg.Policy, mode: cfg.Mode, metrics: metrics, log: cfg.Logger,
		sink: newSink(cfg.File, metrics, cfg.Logger),
	}
}

// Run writes until ctx ends, and then what is left.
func (a *Auditor) Run(ctx context.Context) error { return a.sink.run(ctx) }

// Request is what is known of a request from the start.
type Request struct {
	ID       string
	Received time.Time
	// User is nil when nobody was found out.
	User       *authn.User
	Attributes authz.Attributes
	// Many says that it is about more than the namespace and the name that Attributes have, which
	// are those of one of them.
	Many bool
	// Unwaited has nobody wait for its events to be written, unless the mode is ModeStrict.
	Unwaited bool
}

// Rule gives the number of the policy's rule that counts for what somebody wants to do; -1 if
// nothing is written down of it.
func (a *Auditor) Rule(user *authn.User, what authz.Attributes) int {
	if a == nil {
		return -1
	}
	if found := a.policy.rule(user, what); found.level != auditv1.LevelNone {
		return found.number
	}
	return -1
}

// Begin starts the record of a request; it is nil if the policy wants none.
func (a *Auditor) Begin(r *http.Request, what Request) *Record {
	if a == nil {
		return nil
	}
	rule := a.policy.rule(what.User, what.Attributes)
	a.metrics.levels.WithLabelValues(string(rule.level)).Inc()
	if rule.level == auditv1.LevelNone {
		return nil
	}
	record := &Record{auditor: a, rule: rule, mode: a.mode}
	if what.Unwaited && a.mode == ModeBlocking {
		record.mode = ModeBatch
	}
	record.event = auditv1.Event{
		TypeMeta: metav1.TypeMeta{APIVersion: auditv1.SchemeGroupVersion.String(), Kind: "Event"},
		Level:    rule.level, AuditID: types.UID(what.ID),
		RequestURI: r.URL.RequestURI(), Verb: what.Attributes.Verb, UserAgent: userAgent(r),
		RequestReceivedTimestamp: metav1.NewMicroTime(what.Received),
	}
	for _, ip := range utilnet.SourceIPs(r) {
		record.event.SourceIPs = append(record.event.SourceIPs, ip.String())
	}
	if what.User != nil {
		record.event.User = userInfo(*what.User)
	}
	if at := what.Attributes; at.IsResource() {
		record.event.ObjectRef = &auditv1.ObjectReference{
			Namespace: at.Namespace, Name: at.Name, Resource: at.Resource, Subresource: at.Subresource,
			APIGroup: at.Group, APIVersion: at.Version,
		}
		if what.Many {
			record.event.ObjectRef.Namespace, record.event.ObjectRef.Name = "", ""
		}
	}
	return record
}

// Received writes down that a request has come. An error says that it must not be served.
func (r *Record) Received() error {
	if err := r.stage(auditv1.StageRequestReceived); err != nil && r.auditor.mode == ModeStrict {
		r.auditor.metrics.rejected.Inc()
		return ErrNotStored
	}
	return nil
}

func userAgent(r *http.Request) string {
	agent := r.UserAgent()
	if len(agent) > maxUserAgent {
		return agent[:maxUserAgent] + "...TRUNCATED"
	}
	return agent
}

func userInfo(user authn.User) authenticationv1.UserInfo {
	info := authenticationv1.UserInfo{Username: user.Name, UID: user.UID, Groups: user.Groups}
	for key, values := range user.Extra {
		if info.Extra == nil {
			info.Extra = map[string]authenticationv1.ExtraValue{}
		}
		info.Extra[key] = values
	}
	return info
}

// write sends an event to the sink; event is not kept.
func (a *Auditor) write(event *auditv1.Event, mode Mode) error {
	line, err := json.Marshal(event)
	if err != nil {
		a.metrics.failed.WithLabelValues("log").Inc()
		a.log.Error("An audit event could not be encoded", "audit", event.AuditID, "err", err)
		return err
	}
	a.metrics.events.Inc()
	return a.sink.write(append(line, '\n'), mode)
}

// metrics count events, under kube-apiserver's names.
type metrics struct {
	events, rejected prometheus.Counter
	failed, levels   *prometheus.CounterVec
}

func newMetrics(registerer prometheus.Registerer) *metrics {
	m := &metrics{
		events: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "apiserver_audit_event_total", Help: "Audit events made.",
		}),
		rejected: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "apiserver_audit_requests_rejected_total", Help: "Requests refused since their audit event could not be written.",
		}),
		failed: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "apiserver_audit_error_total", Help: "Audit events lost: buffered, since too many waited; log, since they could not be written.",
		}, []string{"plugin"}),
		levels: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "apiserver_audit_level_total", Help: "Requests by the level at which they are audited.",
		}, []string{"level"}),
	}
	registerer.MustRegister(m.events, m.rejected, m.failed, m.levels)
	return m
}
