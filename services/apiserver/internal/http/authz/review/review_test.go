package review_test

import (
	"context"
	"encoding/json"
	"errors"
	"reflect"
	"testing"

	"go.uber.org/goleak"
	authorizationv1 "k8s.io/api/authorization/v1"

	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/http/authn"
	"github.com/garboard/garboard/services/apiserver/internal/http/authz"
	"github.com/garboard/garboard/services/apiserver/internal/http/authz/review"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// recorder is an authorizer that remembers what it was asked.
type recorder struct {
	decision authz.Decision
	reason   string
	err      error

	user authn.User
	a    authz.Attributes
}

func (r *recorder) Authorize(_ context.Context, user authn.User, a authz.Attributes) (authz.Decision, string, error) {
	r.user, r.a = user, a
	return r.decision, r.reason, r.err
}

func (r *recorder) Rules(_ context.Context, user authn.User, namespace string) ([]authorizationv1.ResourceRule, []authorizationv1.NonResourceRule, bool, error) {
	r.user = user
	if namespace == "none" {
		return nil, nil, true, errors.New("no rules here")
	}
	return []authorizationv1.ResourceRule{{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{"pods"}}}, nil, false, nil
}

func answer(t *testing.T, authorizer review.Authorizer, kind, namespace, body string) (string, error) {
	t.Helper()
	table := scheme.New()
	gvk := authorizationv1.SchemeGroupVersion.WithKind(kind)
	obj := table.Kind(gvk).New()
	if err := json.Unmarshal([]byte(body), obj); err != nil {
		t.Fatal(err)
	}
	ctx := authn.WithUser(t.Context(), authn.User{Name: "me", Groups: []string{"mine"}})
	answered, err := review.Answers(authorizer)[gvk](ctx, namespace, obj)
	if err != nil {
		return "", err
	}
	status, err := json.Marshal(reflect.ValueOf(answered).Elem().FieldByName("Status").Interface())
	if err != nil {
		t.Fatal(err)
	}
	return string(status), nil
}

// TestAsked checks what a review asks the authorizer, and the status it gets.
func TestAsked(t *testing.T) {
	you := authn.User{Name: "you", UID: "1", Groups: []string{"g"}, Extra: map[string][]string{"k": {"v"}}}
	me := authn.User{Name: "me", Groups: []string{"mine"}}
	const spec = `"user": "you", "uid": "1", "groups": ["g"], "extra": {"k": ["v"]}`
	for name, c := range map[string]struct {
		kind, namespace, body string
		says                  recorder
		user                  authn.User
		a                     authz.Attributes
		want                  string
	}{
		"a resource": {
			kind: "SubjectAccessReview", says: recorder{decision: authz.Allow, reason: "because"}, user: you,
			body: `{"spec": {` + spec + `, "resourceAttributes": {"verb": "get", "group": "apps", "resource": "deployments", "subresource": "scale", "namespace": "n", "name": "d"}}}`,
			a:    authz.Attributes{Verb: "get", Group: "apps", Version: "*", Resource: "deployments", Subresource: "scale", Namespace: "n", Name: "d"},
			want: `{"allowed":true,"reason":"because"}`,
		},
		"a path": {
			kind: "SubjectAccessReview", says: recorder{reason: "no"}, user: you,
			body: `{"spec": {` + spec + `, "nonResourceAttributes": {"verb": "get", "path": "/healthz"}}}`,
			a:    authz.Attributes{Verb: "get", Path: "/healthz", NonResource: true}, want: `{"allowed":false,"reason":"no"}`,
		},
		"an empty path": {
			kind: "SelfSubjectAccessReview", user: me, body: `{"spec": {"nonResourceAttributes": {"verb": "get"}}}`,
			a: authz.Attributes{Verb: "get", NonResource: true}, want: `{"allowed":false}`,
		},
		"denied": {
			kind: "SelfSubjectAccessReview", says: recorder{decision: authz.Deny, reason: "never", err: errors.New("oops")}, user: me,
			body: `{"spec": {"resourceAttributes": {"verb": "list", "version": "v1", "resource": "pods"}}}`,
			a:    authz.Attributes{Verb: "list", Version: "v1", Resource: "pods"}, want: `{"allowed":false,"denied":true,"reason":"never","evaluationError":"oops"}`,
		},
		"in a namespace": {
			kind: "LocalSubjectAccessReview", namespace: "n", says: recorder{decision: authz.Allow}, user: authn.User{Groups: []string{"g"}},
			body: `{"metadata": {"namespace": "n"}, "spec": {"groups": ["g"], "resourceAttributes": {"verb": "list", "resource": "pods", "namespace": "n"}}}`,
			a:    authz.Attributes{Verb: "list", Version: "*", Resource: "pods", Namespace: "n"}, want: `{"allowed":true}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := answer(t, &c.says, c.kind, c.namespace, c.body)
			if err != nil || got != c.want || !reflect.DeepEqual(c.says.user, c.user) || !reflect.DeepEqual(c.says.a, c.a) {
				t.Errorf("got %s, %v\nuser %+v\nattributes %+v", got, err, c.says.user, c.says.a)
			}
		})
	}
}

// TestSelectors: the parts of a selector that are understood narrow the question, and the status
// says that the rest is ignored.
func TestSelectors(t *testing.T) {
	for body, want := range map[string]struct{ demands, problem string }{
		`"fieldSelector": {"rawSelector": "spec.nodeName=n"}`: {demands: " spec.nodeName=n"},
		`"fieldSelector": {"rawSelector": "x"}`:               {problem: "spec.resourceAttributes.fieldSelector ignored due to parse error"},
		`"fieldSelector": {"requirements": [{"key": "a", "operator": "In", "values": ["b"]}, {"key": "c", "operator": "NotIn", "values": ["d"]}]}`: {demands: " a=b c!=d"},
		`"fieldSelector": {"requirements": [{"key": "a", "operator": "In", "values": ["b"]}, {"key": "c", "operator": "Exists"}]}`: {
			demands: " a=b", problem: "spec.resourceAttributes.fieldSelector partially ignored due to parse error"},
		`"fieldSelector": {"requirements": [{"key": "a", "operator": "In", "values": ["b", "c"]}]}`: {problem: "spec.resourceAttributes.fieldSelector ignored due to parse error"},
		`"labelSelector": {"rawSelector": "a in (b,c),!d"}`:                                         {demands: " a in (b,c) !d"},
		`"labelSelector": {"rawSelector": "a in ("}`:                                                {problem: "spec.resourceAttributes.labelSelector ignored due to parse error"},
		`"labelSelector": {"requirements": [{"key": "a", "operator": "Exists"}, {"key": "b", "operator": "New"}]}`: {
			demands: " a", problem: "spec.resourceAttributes.labelSelector partially ignored due to parse error"},
	} {
		asked := &recorder{}
		got, err := answer(t, asked, "SelfSubjectAccessReview", "", `{"spec": {"resourceAttributes": {"verb": "list", "resource": "pods", `+body+`}}}`)
		if err != nil {
			t.Errorf("%s: %v", body, err)
			continue
		}
		var status authorizationv1.SubjectAccessReviewStatus
		if err := json.Unmarshal([]byte(got), &status); err != nil {
			t.Fatal(err)
		}
		demands := ""
		for _, demand := range asked.a.Fields {
			demands += " " + demand.Field + string(demand.Operator) + demand.Value
		}
		for _, demand := range asked.a.Labels {
			demands += " " + demand.String()
		}
		if demands != want.demands || status.EvaluationError != want.problem {
			t.Errorf("%s: the review asked for%s with the error %q", body, demands, status.EvaluationError)
		}
	}
}

// TestInvalid: invalid reviews are refused in Kubernetes' words.
func TestInvalid(t *testing.T) {
	const (
		prefix = `.authorization.k8s.io "" is invalid: `
		what   = `"resourceAttributes": {"verb": "get", "resource": "pods", "namespace": "n"}`
		both   = what + `, "nonResourceAttributes": {"verb": "get", "path": "/"}`
		one    = `exactly one of nonResourceAttributes or resourceAttributes must be specified`
	)
	for _, c := range []struct{ kind, namespace, body, want string }{
		{"SubjectAccessReview", "", `{"spec": {"user": "u"}}`, prefix + `spec: Invalid value: null: ` + one},
		{"SubjectAccessReview", "", `{"spec": {"user": "u", ` + both + `}}`, prefix + `spec: Invalid value: {"path":"/","verb":"get"}: ` + one},
		{"SubjectAccessReview", "", `{"spec": {` + what + `}}`, prefix + `spec.user: Invalid value: "": at least one of user or group must be specified`},
		{"SubjectAccessReview", "", `{}`, prefix + `[spec: Invalid value: null: ` + one + `, spec.user: Invalid value: "": at least one of user or group must be specified]`},
		{"SelfSubjectAccessReview", "", `{}`, prefix + `spec: Invalid value: null: ` + one},
		{"SelfSubjectAccessReview", "", `{"metadata": {"name": "x"}, "spec": {` + what + `}}`, prefix + `metadata: Invalid value: {"name":"x"}: must be empty`},
		{"SelfSubjectAccessReview", "", `{"spec": {"resourceAttributes": {"fieldSelector": {}}}}`, prefix +
			`spec.resourceAttributes.fieldSelector.requirements: Required value: when spec.resourceAttributes.fieldSelector is specified, requirements or rawSelector is required`},
		{"SelfSubjectAccessReview", "", `{"spec": {"resourceAttributes": {"labelSelector": {"rawSelector": "a", "requirements": [{"key": "a", "operator": "Exists"}]}}}}`, prefix +
			`spec.resourceAttributes.labelSelector.rawSelector: Invalid value: "a": may not specified at the same time as requirements`},
		{"SelfSubjectAccessReview", "", `{"spec": {"resourceAttributes": {"labelSelector": {"requirements": [{"key": "a", "operator": "In"}]}}}}`, prefix +
			"spec.resourceAttributes.labelSelector.requirements[0].values: Required value: must be specified when `operator` is 'In' or 'NotIn'"},
		{"LocalSubjectAccessReview", "m", `{"metadata": {"namespace": "m"}, "spec": {"user": "u", ` + what + `}}`, prefix + `spec.resourceAttributes.namespace: Invalid value: "n": must match metadata.namespace`},
		{"LocalSubjectAccessReview", "m", `{"metadata": {"namespace": "n"}, "spec": {"user": "u", ` + what + `}}`, `spec.resourceAttributes.namespace must match namespace: m`},
		{"LocalSubjectAccessReview", "n", `{"metadata": {"namespace": "n", "labels": {"a": "b"}}, "spec": {"user": "u", ` + what + `}}`, prefix + `metadata: Invalid value: {"namespace":"n","labels":{"a":"b"}}: must be empty except for namespace`},
		{"LocalSubjectAccessReview", "n", `{"metadata": {"namespace": "n"}, "spec": {"user": "u", "nonResourceAttributes": {"path": "/"}}}`, prefix + `spec.nonResourceAttributes: Invalid value: {"path":"/"}: disallowed on this kind of request`},
		{"SelfSubjectRulesReview", "", `{}`, `no namespace on request`},
	} {
		if _, err := answer(t, &recorder{}, c.kind, c.namespace, c.body); err == nil || err.Error() != c.want {
			t.Errorf("%s %s:\ngot  %v\nwant %s", c.kind, c.body, err, c.want)
		}
	}
}

func TestRules(t *testing.T) {
	asked := &recorder{}
	for namespace, want := range map[string]string{
		"n":    `{"resourceRules":[{"verbs":["get"],"apiGroups":[""],"resources":["pods"]}],"nonResourceRules":[],"incomplete":false}`,
		"none": `{"resourceRules":[],"nonResourceRules":[],"incomplete":true,"evaluationError":"no rules here"}`,
	} {
		got, err := answer(t, asked, "SelfSubjectRulesReview", "", `{"spec": {"namespace": "`+namespace+`"}}`)
		if err != nil || got != want || asked.user.Name != "me" {
			t.Errorf("%s: got %s, %v, want %s", namespace, got, err, want)
		}
	}
}
