package eventratelimit

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/services/apiserver/internal/admission"
	"github.com/garboard/garboard/services/apiserver/internal/admission/admissiontest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const head = "apiVersion: eventratelimit.admission.k8s.io/v1alpha1\nkind: Configuration\nlimits:\n"

// event returns an event in a namespace about an object.
func event(namespace, about string) *corev1.Event {
	return &corev1.Event{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "e"}, Source: corev1.EventSource{Component: "kubelet", Host: "h"},
		InvolvedObject: corev1.ObjectReference{Kind: "Pod", Namespace: namespace, Name: about, UID: "u", APIVersion: "v1"},
	}
}

// TestEventRateLimit sends requests at one moment.
func TestEventRateLimit(t *testing.T) {
	create := func(namespace, about string) *admission.Request {
		return &admission.Request{Object: event(namespace, about)}
	}
	for _, tc := range []struct {
		name, limits string
		reqs         []*admission.Request
		// want is the answer to each request, separated by commas: empty if it is accepted.
		want []string
	}{
		{"the server's limit", "- {type: Server, qps: 1, burst: 2}", []*admission.Request{create("a", "x"), create("b", "y"), create("c", "z")},
			[]string{"", "", "Too many requests: limit reached on type Server for key "}},
		{"a namespace's limit", "- {type: Namespace, qps: 1, burst: 1}", []*admission.Request{create("a", "x"), create("b", "x"), create("a", "y")},
			[]string{"", "", "Too many requests: limit reached on type Namespace for key a"}},
		{"a user's limit", "- {type: User, qps: 1, burst: 1}", []*admission.Request{create("a", "x"), create("b", "y")},
			[]string{"", "Too many requests: limit reached on type User for key alice"}},
		{"an object's limit", "- {type: SourceAndObject, qps: 1, burst: 1}", []*admission.Request{create("a", "x"), create("a", "y"), create("a", "x")},
			[]string{"", "", "Too many requests: limit reached on type SourceAndObject for key kubelethPodaxuv1"}},
		{"two limits", "- {type: Server, qps: 1, burst: 1}\n- {type: Namespace, qps: 1, burst: 1}", []*admission.Request{create("a", "x"), create("a", "x"), create("b", "x")},
			[]string{"", "Too many requests: [limit reached on type Server for key , limit reached on type Namespace for key a]", "Too many requests: limit reached on type Server for key "}},
		{"a forgotten bucket", "- {type: Namespace, qps: 1, burst: 1, cacheSize: 1}", []*admission.Request{create("a", "x"), create("b", "x"), create("a", "x")}, []string{"", "", ""}},
		{"updates", "- {type: Server, qps: 1, burst: 1}",
			[]*admission.Request{create("a", "x"), {Verb: admission.Update, Object: event("a", "x"), Old: event("a", "x")}},
			[]string{"", "Too many requests: limit reached on type Server for key "}},
		{"what is not limited", "- {type: Server, qps: 1, burst: 1}", []*admission.Request{
			create("a", "x"), {Verb: admission.Delete, Old: event("a", "x")}, {Object: event("a", "x"), DryRun: true}, {Object: admissiontest.Pod()},
			{Object: &eventsv1.Event{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "e"}}},
		}, []string{"", "", "", "", ""}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := admissiontest.New()
				plugin, err := Plugin([]byte(head + tc.limits))
				if err != nil {
					t.Fatal(err)
				}
				for i, req := range tc.reqs {
					got := ""
					if _, err := w.Admit(t, req, plugin); err != nil {
						got = err.Error()
						if !apierrors.IsTooManyRequests(err) {
							t.Errorf("request %d: got %v, which is not a 429", i, err)
						}
					}
					if got != tc.want[i] {
						t.Errorf("request %d: got  %s\nwant %s", i, got, tc.want[i])
					}
				}
			})
		})
	}
}

func TestRefill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := admissiontest.New()
		plugin, err := Plugin([]byte(head + "- {type: Server, qps: 2, burst: 3}"))
		if err != nil {
			t.Fatal(err)
		}
		accepted := func() (n int) {
			for range 10 {
				if _, err := w.Admit(t, &admission.Request{Object: event("a", "x")}, plugin); err == nil {
					n++
				}
			}
			return n
		}
		for i, want := range []int{3, 2, 3} {
			if got := accepted(); got != want {
				t.Errorf("burst %d: %d events are accepted, want %d", i, got, want)
			}
			time.Sleep(time.Duration(i+1) * time.Second)
		}
	})
}

func TestFaultyLimits(t *testing.T) {
	for text, want := range map[string]string{
		"":                              "limits: Invalid value: null: must not be empty",
		strings.TrimSpace(head) + " []": "limits: Invalid value: []: must not be empty",
		head + "- {type: Nodes, qps: 1, burst: 1}":                    `limits[0].type: Unsupported value: "Nodes": supported values: "Server", "Namespace", "User", "SourceAndObject"`,
		head + "- {type: Server, qps: 0, burst: 1}":                   "limits[0].qps: Invalid value: 0: must be positive",
		head + "- {type: Server, qps: 1}":                             "limits[0].burst: Invalid value: 0: must be positive",
		head + "- {type: User, qps: 1, burst: 1, cacheSize: -1}":      "limits[0].cacheSize: Invalid value: -1: must not be negative",
		head + "- {type: Server, qps: 1, burst: 1, cacheSize: -1}":    "",
		head + "- {type: User, qps: 1, burst: 1, cache: 1}":           `unknown field "limits[0].cache"`,
		strings.Replace(head, "v1alpha1", "v1", 1) + "- {type: User}": "known are kind Configuration",
	} {
		_, err := Plugin([]byte(text))
		if (err != nil) != (want != "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", text, err, want)
		}
	}
}
