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

// maxUserAgent bounds the bytes of a User-Agent in an event. It is Kubernetes' value.
const maxUserAgent = 1024

// errNotStored reports that a request is refused because its audit event could not be stored.
var errNotStored = errors.New("failed to store audit event")

// Config configures an Auditor.
type Config struct {
	// Policy selects the requests that are recorded, and in how much detail.
	Policy *Policy
	// File is where events are written.
	File File
	// Mode is how requests wait for their events to be written.
	Mode Mode
	// Logger receives the failures.
	Logger *slog.Logger
	// Registerer registers the metrics.
	Registerer prometheus.Registerer
}

// Auditor records requests in the audit log. A nil Auditor records nothing.
type Auditor struct {
	policy  *Policy
	sink    *sink
	mode    Mode
	metrics *metrics
	log     *slog.Logger
}

// New returns an auditor. Its Run method writes the log.
func New(cfg Config) *Auditor {
	metrics := newMetrics(cfg.Registerer)
	return &Auditor{
		policy: cfg.Policy, mode: cfg.Mode, metrics: metrics, log: cfg.Logger,
		sink: newSink(cfg.File, metrics, cfg.Logger),
	}
}

// Run writes events until ctx ends, then the ones that still wait.
func (a *Auditor) Run(ctx context.Context) error { return a.sink.run(ctx) }

// Request is what the apiserver knows about a request when it arrives.
type Request struct {
	ID       string
	Received time.Time
	// User is nil when the request was not authenticated.
	User       *authn.User
	Attributes authz.Attributes
	// Many reports that the request concerns more than one namespace and name. Attributes then hold
	// those of one of its targets.
	Many bool
	// Unwaited keeps the request from waiting until its events are written, unless the mode is
	// ModeStrict.
	Unwaited bool
}

// Rule returns the index of the policy rule that applies to a user's operation, or -1 if the policy
// records nothing about it.
func (a *Auditor) Rule(user *authn.User, what authz.Attributes) int {
	if a == nil {
		return -1
	}
	if found := a.policy.rule(user, what); found.level != auditv1.LevelNone {
		return found.number
	}
	return -1
}

// Begin starts the record of a request. It returns nil if the policy wants none.
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

// Received records the stage RequestReceived. If it returns an error, the request must not be
// served.
func (r *Record) Received() error {
	if err := r.stage(auditv1.StageRequestReceived); err != nil && r.auditor.mode == ModeStrict {
		r.auditor.metrics.rejected.Inc()
		return errNotStored
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

// write encodes an event and sends it to the sink. It does not retain event.
func (a *Auditor) write(event *auditv1.Event, mode Mode) error {
	line, err := json.Marshal(event)
	if err != nil {
		a.metrics.failed.WithLabelValues("log").Inc()
		a.log.Error("encoding an audit event failed", "audit", event.AuditID, "err", err)
		return err
	}
	a.metrics.events.Inc()
	return a.sink.write(append(line, '\n'), mode)
}

// metrics count events under the metric names of kube-apiserver.
type metrics struct {
	events, rejected prometheus.Counter
	failed, levels   *prometheus.CounterVec
}

func newMetrics(registerer prometheus.Registerer) *metrics {
	m := &metrics{
		events: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "apiserver_audit_event_total", Help: "Audit events generated.",
		}),
		rejected: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "apiserver_audit_requests_rejected_total", Help: "Requests refused because their audit event could not be written.",
		}),
		failed: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "apiserver_audit_error_total", Help: "Audit events lost: buffered, because the queue was full; log, because they could not be written.",
		}, []string{"plugin"}),
		levels: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "apiserver_audit_level_total", Help: "Requests by the level at which they are audited.",
		}, []string{"level"}),
	}
	registerer.MustRegister(m.events, m.rejected, m.failed, m.levels)
	return m
}
