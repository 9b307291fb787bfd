package busauth

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/uuid"

	"github.com/garboard/garboard/libs/bus/callout"
	"github.com/garboard/garboard/libs/bus/subject"
	"github.com/garboard/garboard/libs/scheme"
	watchv1 "github.com/garboard/garboard/proto/watch/v1"
	"github.com/garboard/garboard/services/apiserver/internal/http/audit"
	"github.com/garboard/garboard/services/apiserver/internal/http/authn"
)

// Annotations in the audit log: the decision, as over HTTP, and how reading over NATS differs.
const (
	decisionNote = "authorization.k8s.io/decision"
	reasonNote   = "authorization.k8s.io/reason"
	// carriedNote has the value "nats".
	carriedNote = "bus.garboard.io/carried-by"
	// subjectsNote lists the subjects that a connection may subscribe to, and untilNote when it
	// ends.
	subjectsNote = "bus.garboard.io/subjects"
	untilNote    = "bus.garboard.io/until"
)

// maxSubjectsNote bounds the bytes of subjects in an annotation.
const maxSubjectsNote = 16 << 10

// Audited starts the audit record of an ask, which reads like a list over HTTP. The returned
// context carries the record. done ends it with the status code and, for a refusal, the reason. An
// error means that the ask must not be answered. Without an audit log Audited does nothing.
func (d *Decider) Audited(ctx context.Context, asker subject.Client, ask *watchv1.Ask) (
	audited context.Context, done func(code int, reason string), err error,
) {
	if d.cfg.Audit == nil {
		return ctx, func(int, string) {}, nil
	}
	var caller *authn.User
	if user, err := User(asker.Identity); err == nil {
		caller = &user
	}
	// An ask for an unknown kind is recorded as it was sent.
	kind := &scheme.Kind{GroupVersionKind: schema.GroupVersionKind{Group: ask.GetGroup(), Version: "v1"}, Resource: ask.GetResource()}
	v := view{kind, ask.GetScope(), ask.GetNamespace(), ask.GetName()}
	for _, kind := range d.kinds.Get().by[ask.GetResource()] {
		if kind.Group == ask.GetGroup() {
			v.kind = kind
		}
	}
	record := d.begin(v, "list", asker.Host(), "", audit.Request{User: caller})
	if err := record.Received(); err != nil {
		return ctx, nil, err
	}
	return audit.With(ctx, record), func(code int, reason string) { end(record, code, reason) }, nil
}

// begin starts the record of a client that reads a view from a host.
func (d *Decider) begin(v view, verb, host, agent string, what audit.Request) *audit.Record {
	what.ID, what.Received, what.Attributes = string(uuid.NewUUID()), time.Now(), v.attributes()
	what.Attributes.Verb = verb
	if what.Many {
		v.scope, v.namespace, v.name = "", "", ""
	}
	record := d.cfg.Audit.Begin(&http.Request{
		Method: http.MethodGet, URL: v.url(verb == "watch"), RemoteAddr: host, Header: http.Header{"User-Agent": {agent}},
	}, what)
	record.Annotate(carriedNote, "nats")
	return record
}

// end ends a record.
func end(record *audit.Record, code int, reason string) {
	if code >= http.StatusBadRequest {
		record.Response(&metav1.Status{
			TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"},
			Status:   metav1.StatusFailure, Code: int32(code), Reason: reasonOf(code), Message: reason, //nolint:gosec // It has three digits.
		})
	}
	record.Started(code, false)
	record.Complete(false)
}

func reasonOf(code int) metav1.StatusReason {
	switch code {
	case http.StatusForbidden:
		return metav1.StatusReasonForbidden
	case http.StatusNotFound:
		return metav1.StatusReasonNotFound
	}
	return metav1.StatusReasonTimeout
}

// url returns the URL at which HTTP would read a view.
func (v view) url(watch bool) *url.URL {
	path := "/api/" + v.kind.Version
	if v.kind.Group != "" {
		path = "/apis/" + v.kind.Group + "/" + v.kind.Version
	}
	if v.namespace != "" {
		path += "/namespaces/" + v.namespace
	}
	query := url.Values{}
	var selected []string
	if v.scope != "" && v.kind.Scope != nil {
		selected = append(selected, "spec.nodeName="+v.nodeName())
	}
	if v.name != "" {
		selected = append(selected, "metadata.name="+v.name)
	}
	if len(selected) > 0 {
		query.Set("fieldSelector", strings.Join(selected, ","))
	}
	if watch {
		query.Set("watch", "true")
	}
	return &url.URL{Path: path + "/" + v.kind.Resource, RawQuery: query.Encode()}
}

// note records the decision in the audit record that ctx carries.
func note(ctx context.Context, allowed bool, reason string) {
	decision := "forbid"
	if allowed {
		decision = "allow"
	}
	record := audit.From(ctx)
	record.Annotate(decisionNote, decision)
	record.Annotate(reasonNote, reason)
}

// class is the subject of one audit event of a connection: a kind, and the policy rule that applies
// to it.
type class struct {
	kind *scheme.Kind
	rule int
}

// watches records what a client that is let in may watch: one event for each kind and each rule of
// the policy. Only in strict mode does the caller wait for these events; an error then means
// that the client must not be let in.
func (d *Decider) watches(shown callout.Credentials, user authn.User, subjects []watched, until time.Time) error {
	if d.cfg.Audit == nil {
		return nil
	}
	var order []class
	views := map[class][]watched{}
	for _, one := range subjects {
		if one.progress {
			continue
		}
		at := one.view.attributes()
		at.Verb = "watch"
		c := class{one.view.kind, d.cfg.Audit.Rule(&user, at)}
		if c.rule < 0 {
			continue
		}
		if views[c] == nil {
			order = append(order, c)
		}
		views[c] = append(views[c], one)
	}
	for _, c := range order {
		all := views[c]
		record := d.begin(all[0].view, "watch", shown.Host, shown.Name, audit.Request{User: &user, Many: len(all) > 1, Unwaited: true})
		record.Annotate(decisionNote, "allow")
		record.Annotate(subjectsNote, spelled(all))
		record.Annotate(untilNote, until.UTC().Format(time.RFC3339))
		if err := record.Received(); err != nil {
			return err
		}
		end(record, http.StatusOK, "")
	}
	return nil
}

// spelled joins subjects until they become too long.
func spelled(all []watched) string {
	var b strings.Builder
	for i, one := range all {
		if b.Len()+len(one.subject) > maxSubjectsNote {
			fmt.Fprintf(&b, " and %d more", len(all)-i)
			break
		}
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(one.subject)
	}
	return b.String()
}
