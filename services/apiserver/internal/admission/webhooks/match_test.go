package webhooks_test

import (
	"slices"
	"strings"
	"testing"

	registrationv1 "k8s.io/api/admissionregistration/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/admission"
	"github.com/garboard/garboard/services/apiserver/internal/admission/admissiontest"
	"github.com/garboard/garboard/services/apiserver/internal/http/authz"
)

func rule(operations, groups, versions, resources string, scope registrationv1.ScopeType) func(*hook) {
	return func(h *hook) {
		rule := registrationv1.RuleWithOperations{Rule: registrationv1.Rule{
			APIGroups: strings.Split(groups, ","), APIVersions: strings.Split(versions, ","), Resources: strings.Split(resources, ","), Scope: &scope,
		}}
		for operation := range strings.SplitSeq(operations, ",") {
			rule.Operations = append(rule.Operations, registrationv1.OperationType(operation))
		}
		h.Rules = []registrationv1.RuleWithOperations{rule}
	}
}

func conditions(expressions ...string) func(*hook) {
	return func(h *hook) {
		for _, expression := range expressions {
			h.MatchConditions = append(h.MatchConditions, registrationv1.MatchCondition{Name: "c", Expression: expression})
		}
	}
}

func ignored(h *hook) { h.FailurePolicy = new(registrationv1.Ignore) }

func labelled(key, value string) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: map[string]string{key: value}}
}

// TestMatching checks which requests a webhook is asked about.
func TestMatching(t *testing.T) {
	broken := &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "X"}}}
	pod := func() *admission.Request {
		return &admission.Request{Object: admissiontest.Pod(func(p *corev1.Pod) { p.Labels = map[string]string{"app": "web"} })}
	}
	update := func() *admission.Request {
		return &admission.Request{Verb: admission.Update, Object: admissiontest.Pod(), Old: admissiontest.Pod(func(p *corev1.Pod) { p.Labels = map[string]string{"app": "web"} })}
	}
	remove := func() *admission.Request { return &admission.Request{Verb: admission.Delete, Old: admissiontest.Pod()} }
	node := func() *admission.Request {
		return &admission.Request{Object: &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}}}
	}
	namespace := func() *admission.Request {
		return &admission.Request{Object: admissiontest.Namespace("fresh", corev1.NamespaceActive, "team", "red")}
	}
	deleted := func() *admission.Request {
		return &admission.Request{Verb: admission.Delete, Old: admissiontest.Namespace("blue", corev1.NamespaceActive, "team", "stale")}
	}
	in := func(ns string) func() *admission.Request {
		return func() *admission.Request {
			return &admission.Request{Object: admissiontest.Pod(func(p *corev1.Pod) { p.Namespace = ns })}
		}
	}
	all := registrationv1.AllScopes
	for _, tc := range []struct {
		name   string
		change func(*hook)
		req    func() *admission.Request
		asked  bool
		fault  string
	}{
		{"everything", func(*hook) {}, pod, true, ""},
		{"the operation", rule("CREATE", "", "v1", "pods", all), pod, true, ""},
		{"another operation", rule("UPDATE,DELETE,CONNECT", "", "v1", "pods", all), pod, false, ""},
		{"an update", rule("UPDATE", "", "v1", "pods", all), update, true, ""},
		{"a delete", rule("DELETE", "", "v1", "pods", all), remove, true, ""},
		{"another group", rule("*", "apps", "v1", "pods", all), pod, false, ""},
		{"another version", rule("*", "", "v2", "pods", all), pod, false, ""},
		{"another resource", rule("*", "", "v1", "nodes,services", all), pod, false, ""},
		{"one of several resources", rule("*", "apps,", "v2,v1", "nodes,pods", all), pod, true, ""},
		{"a subresource only", rule("*", "", "v1", "pods/status,*/scale", all), pod, false, ""},
		{"no subresources", rule("*", "*", "*", "*", all), func() *admission.Request { r := update(); r.Subresource = "status"; r.Kind = nil; return r }, false, ""},
		{"all subresources of pods", rule("*", "", "v1", "pods/*", all), func() *admission.Request { r := update(); r.Subresource = "status"; return r }, true, ""},
		{"the status of all", rule("*", "*", "*", "*/status", all), func() *admission.Request { r := update(); r.Subresource = "status"; return r }, true, ""},
		{"objects in namespaces", rule("*", "*", "*", "*", registrationv1.NamespacedScope), pod, true, ""},
		{"objects in namespaces, a node", rule("*", "*", "*", "*", registrationv1.NamespacedScope), node, false, ""},
		{"objects in namespaces, a namespace", rule("*", "*", "*", "*", registrationv1.NamespacedScope), namespace, false, ""},
		{"objects outside", rule("*", "*", "*", "*", registrationv1.ClusterScope), pod, false, ""},
		{"objects outside, a node", rule("*", "*", "*", "*", registrationv1.ClusterScope), node, true, ""},
		{"objects outside, a namespace", rule("*", "*", "*", "*", registrationv1.ClusterScope), namespace, true, ""},

		{"the namespace's labels", func(h *hook) { h.NamespaceSelector = labelled("team", "blue") }, in("blue"), true, ""},
		{"a namespace without", func(h *hook) { h.NamespaceSelector = labelled("team", "blue") }, pod, false, ""},
		{"a node is in no namespace", func(h *hook) { h.NamespaceSelector = labelled("team", "blue") }, node, true, ""},
		{"a new namespace's labels", func(h *hook) { h.NamespaceSelector = labelled("team", "red") }, namespace, true, ""},
		{"a deleted namespace's labels", func(h *hook) { h.NamespaceSelector = labelled("team", "blue") }, deleted, true, ""},
		{"no such namespace", func(h *hook) { h.NamespaceSelector = labelled("team", "blue") }, in("none"), false, `namespaces "none" not found`},
		{"no such namespace, other rules", func(h *hook) {
			h.NamespaceSelector = labelled("team", "blue")
			rule("*", "", "v1", "services", all)(h)
		}, in("none"), false, ""},
		{"a broken namespaceSelector", func(h *hook) { h.NamespaceSelector = broken }, pod, false, `Internal error occurred: "X" is not a valid label selector operator`},

		{"the object's labels", func(h *hook) { h.ObjectSelector = labelled("app", "web") }, pod, true, ""},
		{"the old object's labels", func(h *hook) { h.ObjectSelector = labelled("app", "web") }, update, true, ""},
		{"other labels", func(h *hook) { h.ObjectSelector = labelled("app", "db") }, pod, false, ""},
		{"labels of a deleted object", func(h *hook) { h.ObjectSelector = labelled("app", "web") }, remove, false, ""},
		{"a broken objectSelector", func(h *hook) { h.ObjectSelector = broken }, pod, false, `Internal error occurred: "X" is not a valid label selector operator`},
		{"a broken objectSelector, other rules", func(h *hook) { h.ObjectSelector = broken; rule("*", "", "v1", "services", all)(h) }, pod, false, ""},

		{"a condition", conditions(`object.metadata.labels.app == 'web' && request.operation == 'CREATE'`), pod, true, ""},
		{"conditions", conditions(`true`, `object.metadata.name != 'p'`), pod, false, ""},
		{"the old object", conditions(`oldObject.metadata.labels.app == 'web'`), update, true, ""},
		{"no object", conditions(`object == null && oldObject.metadata.name == 'p'`), remove, true, ""},
		{"the user", conditions(`request.userInfo.username == 'alice'`), pod, true, ""},
		{"what the user may", conditions(`authorizer.group('').resource('pods').namespace('ns').check('list').allowed()`), pod, true, ""},
		{"what the user may not", conditions(`authorizer.requestResource.check('delete').allowed()`), pod, false, ""},
		{"a failing condition", conditions(`object.spec.none == 1`), pod, false, `pods "p" is forbidden: expression 'object.spec.none == 1' resulted in error: no such key: none`},
		{"a failing condition, ignored", func(h *hook) { conditions(`object.spec.none == 1`)(h); ignored(h) }, pod, false, ""},
		{"false outweighs", conditions(`object.spec.none == 1`, `false`), pod, false, ""},
		{"one that does not compile", conditions(`object.`), pod, false, `pods "p" is forbidden: compilation error`},

		{"the configurations of webhooks", func(*hook) {}, func() *admission.Request {
			return &admission.Request{Object: &registrationv1.MutatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: "c"}}}
		}, false, ""},
		{"a policy", func(*hook) {}, func() *admission.Request {
			return &admission.Request{Object: &registrationv1.ValidatingAdmissionPolicyBinding{ObjectMeta: metav1.ObjectMeta{Name: "c"}}}
		}, false, ""},
		{"a review", func(*hook) {}, func() *admission.Request {
			return &admission.Request{Object: &authorizationv1.SelfSubjectAccessReview{}}
		}, false, ""},
	} {
		for _, mutating := range []bool{false, true} {
			t.Run(tc.name+map[bool]string{true: ", mutating"}[mutating], func(t *testing.T) {
				w := newWorld(t, mutating, admissiontest.Namespace("blue", corev1.NamespaceActive, "team", "blue"))
				w.allowed = func(a authz.Attributes) bool { return a.Verb == "list" && a.Resource == "pods" && a.Namespace == "ns" }
				w.configure("c", w.everything("x", tc.change))
				_, err := w.admit(tc.req())
				if (err == nil) != (tc.fault == "") || err != nil && !strings.Contains(err.Error(), tc.fault) {
					t.Errorf("got %v, want %s", err, tc.fault)
				}
				if got := len(w.calls()) == 1; got != tc.asked {
					t.Errorf("asked %v, want %v", got, tc.asked)
				}
			})
		}
	}
}

// TestEquivalence checks what a webhook sees whose rules name another version than the request.
func TestEquivalence(t *testing.T) {
	scaler := func() *autoscalingv2.HorizontalPodAutoscaler {
		return &autoscalingv2.HorizontalPodAutoscaler{
			TypeMeta:   metav1.TypeMeta{APIVersion: "autoscaling/v2", Kind: "HorizontalPodAutoscaler"},
			ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "h"},
			Spec: autoscalingv2.HorizontalPodAutoscalerSpec{MaxReplicas: 5, Metrics: []autoscalingv2.MetricSpec{{
				Type: autoscalingv2.ResourceMetricSourceType,
				Resource: &autoscalingv2.ResourceMetricSource{
					Name: corev1.ResourceCPU, Target: autoscalingv2.MetricTarget{Type: autoscalingv2.UtilizationMetricType, AverageUtilization: new(int32(50))},
				},
			}}},
		}
	}
	exact := func(h *hook) { h.MatchPolicy = new(registrationv1.Exact) }
	v1 := rule("*", "autoscaling", "v1", "horizontalpodautoscalers", registrationv1.AllScopes)
	for _, tc := range []struct {
		name        string
		change      []func(*hook)
		subresource string
		want        string // apiVersion of the object that the webhook sees; empty if it is not asked
	}{
		{"equivalent", []func(*hook){v1}, "", "autoscaling/v1"},
		{"exact", []func(*hook){v1, exact}, "", ""},
		{"the request's first", []func(*hook){v1, func(h *hook) { h.Rules = append(h.Rules, w2()) }}, "", "autoscaling/v2"},
		{"a subresource", []func(*hook){rule("*", "autoscaling", "v1", "*/status", registrationv1.AllScopes)}, "status", "autoscaling/v1"},
		{"not its subresource", []func(*hook){v1}, "status", ""},
		{"with a condition", []func(*hook){v1, conditions("object.spec.targetCPUUtilizationPercentage == 50 && request.kind.version == 'v1'")}, "", "autoscaling/v1"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := newWorld(t, false)
			w.configure("c", w.everything("x", tc.change...))
			if _, err := w.admit(&admission.Request{Verb: admission.Update, Object: scaler(), Old: scaler(), Subresource: tc.subresource}); err != nil {
				t.Fatal(err)
			}
			if tc.want == "" {
				if calls := w.calls(); len(calls) > 0 {
					t.Errorf("asked %q", calls)
				}
				return
			}
			q := w.question("/x")
			if q == nil {
				t.Fatal("not asked")
			}
			group, version, _ := strings.Cut(tc.want, "/")
			if q.Kind.Group != group || q.Kind.Version != version || q.Resource.Version != version || q.RequestKind.Version != "v2" || q.RequestResource.Version != "v2" ||
				q.SubResource != tc.subresource || q.RequestSubResource != tc.subresource {
				t.Errorf("got %+v", q)
			}
			for _, raw := range []string{string(q.Object.Raw), string(q.OldObject.Raw)} {
				if !strings.Contains(raw, `"apiVersion":"`+tc.want+`"`) || strings.Contains(raw, "targetCPUUtilizationPercentage") != (version == "v1") {
					t.Errorf("got %s", raw)
				}
			}
		})
	}
	t.Run("a patch", func(t *testing.T) {
		w := newWorld(t, true)
		w.answer("/x", patchWith(`[{"op":"replace","path":"/spec/targetCPUUtilizationPercentage","value":60}]`))
		w.configure("a", w.everything("x", v1))
		w.configure("b", w.everything("y"), w.everything("z", v1))
		obj := scaler()
		if _, err := w.admit(&admission.Request{Object: obj}); err != nil {
			t.Fatal(err)
		}
		if obj.APIVersion != "autoscaling/v2" || *obj.Spec.Metrics[0].Resource.Target.AverageUtilization != 60 {
			t.Errorf("got %+v", obj)
		}
		for path, want := range map[string]string{"/y": `"averageUtilization":60`, "/z": `"targetCPUUtilizationPercentage":60`} {
			if got := string(w.question(path).Object.Raw); !strings.Contains(got, want) {
				t.Errorf("%s: got %s", path, got)
			}
		}
	})
}

func w2() registrationv1.RuleWithOperations {
	var h hook
	rule("*", "autoscaling", "v2", "*", registrationv1.AllScopes)(&h)
	return h.Rules[0]
}

// TestSubresources checks the kinds of subresources that have their own.
func TestSubresources(t *testing.T) {
	w := newWorld(t, false)
	w.configure("c", w.everything("x"))
	pods := scheme.For[*corev1.Pod](w.Table)
	for _, tc := range []struct {
		req  *admission.Request
		want string
	}{
		{&admission.Request{Kind: pods, Namespace: "ns", Name: "p", Subresource: "eviction", Object: &policyv1.Eviction{}}, "policy/v1, Kind=Eviction pods/eviction CREATE"},
		{&admission.Request{Kind: pods, Namespace: "ns", Name: "p", Subresource: "binding", Object: &corev1.Binding{}}, "/v1, Kind=Binding pods/binding CREATE"},
		{&admission.Request{Verb: admission.Update, Kind: w.Table.Resource(corev1.SchemeGroupVersion.WithResource("replicationcontrollers")), Namespace: "ns", Name: "p", Subresource: "scale", Object: &autoscalingv1.Scale{}, Old: &autoscalingv1.Scale{}},
			"autoscaling/v1, Kind=Scale replicationcontrollers/scale UPDATE"},
		{&admission.Request{Verb: admission.Update, Kind: pods, Namespace: "ns", Name: "p", Subresource: "ephemeralcontainers", Object: &corev1.Pod{}, Old: &corev1.Pod{}}, "/v1, Kind=Pod pods/ephemeralcontainers UPDATE"},
		{&admission.Request{Verb: admission.Delete, Kind: pods, Namespace: "ns", Name: "p", Old: &corev1.Pod{}}, "/v1, Kind=Pod pods/ DELETE"},
	} {
		if _, err := w.admit(tc.req); err != nil {
			t.Fatal(err)
		}
		q := w.question("/x")
		if got := q.Kind.String() + " " + q.Resource.Resource + "/" + q.SubResource + " " + string(q.Operation); got != tc.want {
			t.Errorf("got %s, want %s", got, tc.want)
		}
		for what, raw := range map[string][]byte{"object": q.Object.Raw, "oldObject": q.OldObject.Raw} {
			is := map[string]bool{"object": tc.req.Object != nil, "oldObject": tc.req.Old != nil}[what]
			if (len(raw) > 0 && string(raw) != "null") != is || is && !strings.Contains(string(raw), `"kind":"`+q.Kind.Kind+`"`) {
				t.Errorf("%s: %s is %s", tc.want, what, raw)
			}
		}
	}
	if calls := w.calls(); !slices.Equal(calls, []string{"/x", "/x", "/x", "/x", "/x"}) {
		t.Errorf("got %q", calls)
	}
}
