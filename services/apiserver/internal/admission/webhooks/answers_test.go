package webhooks_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	registrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/services/apiserver/internal/admission"
	"github.com/garboard/garboard/services/apiserver/internal/admission/admissiontest"
)

// write answers with a text in place of a review.
func write(text string) answer {
	return func(w http.ResponseWriter, _ *http.Request, _ *asked, _ *admissionv1.AdmissionResponse) bool {
		_, _ = io.WriteString(w, text)
		return false
	}
}

// with answers with a changed response.
func with(change func(*admissionv1.AdmissionResponse)) answer {
	return func(_ http.ResponseWriter, _ *http.Request, _ *asked, response *admissionv1.AdmissionResponse) bool {
		change(response)
		return true
	}
}

// both runs a test with each of the plugins.
func both(t *testing.T, name string, test func(t *testing.T, mutating bool)) {
	t.Helper()
	for _, mutating := range []bool{false, true} {
		t.Run(name+map[bool]string{true: ", mutating"}[mutating], func(t *testing.T) { test(t, mutating) })
	}
}

// TestRefusals checks the errors of clients whose request a webhook refuses.
func TestRefusals(t *testing.T) {
	for _, tc := range []struct {
		name   string
		status *metav1.Status
		code   int32
		reason metav1.StatusReason
		want   string
	}{
		{"with a message", &metav1.Status{Message: "no web", Code: 403, Reason: metav1.StatusReasonForbidden}, 403, "Forbidden", `admission webhook "x" denied the request: no web`},
		{"with a reason", &metav1.Status{Reason: "NoWeb"}, 400, "NoWeb", `admission webhook "x" denied the request: NoWeb`},
		{"without anything", nil, 400, "", `admission webhook "x" denied the request without explanation`},
		{"with a success", &metav1.Status{Status: metav1.StatusSuccess, Code: 200, Message: "fine"}, 400, "", `admission webhook "x" denied the request: fine`},
		{"with a strange code", &metav1.Status{Code: 999}, 999, "", `admission webhook "x" denied the request without explanation`},
	} {
		both(t, tc.name, func(t *testing.T, mutating bool) {
			w := newWorld(t, mutating)
			w.answer("/x", deny(tc.status))
			w.configure("c", w.everything("x", ignored))
			_, err := w.admit(&admission.Request{Object: admissiontest.Pod()})
			var status apierrors.APIStatus
			if !asStatus(err, &status) || status.Status().Code != tc.code || status.Status().Reason != tc.reason || err.Error() != tc.want || status.Status().Status != metav1.StatusFailure {
				t.Errorf("got %#v, want %d %s %s", err, tc.code, tc.reason, tc.want)
			}
			step := map[bool]string{true: "admit", false: "validating"}[mutating]
			code := fmt.Sprint(min(tc.code, 600))
			labels := map[string]string{"name": "x", "type": step, "operation": "CREATE", "error_type": "no_error", "rejection_code": code}
			if got := w.counted("apiserver_admission_webhook_rejection_count", labels); got != 1 {
				t.Errorf("got %v rejections", got)
			}
			labels = map[string]string{"name": "x", "type": step, "operation": "CREATE", "code": code, "rejected": "true"}
			if got := w.counted("apiserver_admission_webhook_request_total", labels); got != 1 {
				t.Errorf("got %v requests", got)
			}
			if got := w.counted("apiserver_admission_webhook_admission_duration_seconds", labels); got != 1 {
				t.Errorf("got %v durations", got)
			}
		})
	}
}

func asStatus(err error, status *apierrors.APIStatus) bool {
	s, ok := err.(apierrors.APIStatus)
	*status = s
	return ok
}

const failed = `Internal error occurred: failed calling webhook "x": `

// TestFailures calls webhooks that fail, with both failure policies.
func TestFailures(t *testing.T) {
	slow := func(_ http.ResponseWriter, r *http.Request, _ *asked, _ *admissionv1.AdmissionResponse) bool {
		select {
		case <-r.Context().Done():
		case <-time.After(patience):
		}
		return false
	}
	large := func(w http.ResponseWriter, _ *http.Request, _ *asked, _ *admissionv1.AdmissionResponse) bool {
		for range 20 {
			if _, err := io.WriteString(w, strings.Repeat(" ", 1<<20)); err != nil {
				return false
			}
		}
		return true
	}
	for _, tc := range []struct {
		name   string
		answer answer
		change func(*hook)
		want   string
	}{
		{"an error", func(w http.ResponseWriter, _ *http.Request, _ *asked, _ *admissionv1.AdmissionResponse) bool {
			http.Error(w, "broken", 500)
			return false
		}, nil, failed + `failed to call webhook: an error on the server ("broken") has prevented the request from succeeding`},
		{"a late answer", slow, func(h *hook) { h.TimeoutSeconds = new(int32(1)) }, "context deadline exceeded"},
		{"a large answer", large, nil, "the answer has more than 8388608 bytes"},
		{"garbage", write("{{{"), nil, failed + "failed to call webhook: couldn't get version/kind; json parse error"},
		{"a deep answer", write(strings.Repeat("[", 1<<20)), nil, failed + "failed to call webhook: "},
		{"another kind", write(`{"apiVersion":"v1","kind":"Pod"}`), nil, failed + `failed to call webhook: no kind "Pod" is registered`},
		{"another version", func(w http.ResponseWriter, _ *http.Request, q *asked, _ *admissionv1.AdmissionResponse) bool {
			_, _ = fmt.Fprintf(w, `{"apiVersion":"admission.k8s.io/v1beta1","kind":"AdmissionReview","response":{"uid":%q,"allowed":true}}`, q.UID)
			return false
		}, nil, failed},
		{"no response", write(`{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview"}`), nil, failed + "received invalid webhook response: webhook response was absent"},
		{"another uid", with(func(r *admissionv1.AdmissionResponse) { r.UID = "u" }), nil, `", got "u"`},
		{"no uid", with(func(r *admissionv1.AdmissionResponse) { r.UID = "" }), nil, `", got ""`},
		{"no review version", nil, func(h *hook) { h.AdmissionReviewVersions = []string{"v2"} }, failed + "could not create admission objects: webhook does not accept known AdmissionReview versions (v1, v1beta1)"},
		{"broken certificates", nil, func(h *hook) { h.ClientConfig.CABundle = []byte("x") }, failed + "could not get REST client: unable to load root certificates: unable to parse bytes as PEM block"},
		{"unknown certificates", nil, func(h *hook) { h.ClientConfig.CABundle = nil }, "tls: failed to verify certificate: x509: certificate signed by unknown authority"},
		{"no such service", nil, func(h *hook) {
			h.ClientConfig.URL, h.ClientConfig.Service = nil, &registrationv1.ServiceReference{Namespace: "ns", Name: "none"}
		}, failed + `failed to call webhook: Post "https://none.ns.svc:443/?timeout=10s": services "none" not found`},
		{"nothing listens", nil, func(h *hook) { h.ClientConfig.URL = new("https://127.0.0.1:1/x") }, failed + `failed to call webhook: Post "https://127.0.0.1:1/x?timeout=10s": dial tcp 127.0.0.1:1: connect: connection refused`},
	} {
		both(t, tc.name, func(t *testing.T, mutating bool) {
			w := newWorld(t, mutating)
			w.answer("/x", tc.answer)
			var change []func(*hook)
			if tc.change != nil {
				change = append(change, tc.change)
			}
			w.configure("c", w.everything("x", change...))
			_, err := w.admit(&admission.Request{Object: admissiontest.Pod()})
			if !apierrors.IsInternalError(err) || !strings.HasPrefix(err.Error(), failed) || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want %s", err, tc.want)
			}
			if got := w.counted("apiserver_admission_webhook_rejection_count", map[string]string{"error_type": "calling_webhook_error"}); got != 1 {
				t.Errorf("got %v rejections", got)
			}
			w.configure("c", w.everything("x", append(change, ignored)...), w.everything("y"))
			w.calls()
			if _, err := w.admit(&admission.Request{Object: admissiontest.Pod()}); err != nil {
				t.Errorf("ignored: got %v", err)
			}
			if calls := w.calls(); !slices.Contains(calls, "/y") {
				t.Errorf("asked %q, want the next as well", calls)
			}
			if got := w.counted("apiserver_admission_webhook_fail_open_count", map[string]string{"name": "x"}); got != 1 {
				t.Errorf("got %v", got)
			}
		})
	}
}

// TestRequestTimeout checks that the time of a request bounds the calls of webhooks.
func TestRequestTimeout(t *testing.T) {
	both(t, "", func(t *testing.T, mutating bool) {
		w := newWorld(t, mutating)
		w.answer("/x", func(_ http.ResponseWriter, r *http.Request, _ *asked, _ *admissionv1.AdmissionResponse) bool {
			<-r.Context().Done()
			return false
		})
		w.configure("c", w.everything("x", ignored), w.everything("y"))
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		defer cancel()
		req := &admission.Request{Verb: admission.Create, Kind: w.Table.KindOf(admissiontest.Pod()), Namespace: "ns", Object: admissiontest.Pod()}
		chain := admission.NewChain(w.plugin)
		err := chain.Mutate(ctx, req)
		if err == nil {
			err = chain.Validate(ctx, req)
		}
		if mutating && !apierrors.IsTimeout(err) || !mutating && err != nil && !strings.Contains(err.Error(), "deadline") {
			t.Errorf("got %v", err)
		}
		cancel()
		if err := chain.Mutate(ctx, req); mutating && err == nil {
			t.Error("a request without time is admitted")
		}
		if err := chain.Validate(ctx, req); !mutating && !apierrors.IsTimeout(err) {
			t.Errorf("got %v", err)
		}
	})
}

// TestDryRun asks webhooks in a dry run that have effects.
func TestDryRun(t *testing.T) {
	for effects, want := range map[registrationv1.SideEffectClass]string{
		registrationv1.SideEffectClassNone: "", registrationv1.SideEffectClassNoneOnDryRun: "",
		registrationv1.SideEffectClassSome: `admission webhook "x" does not support dry run`, registrationv1.SideEffectClassUnknown: `admission webhook "x" does not support dry run`,
	} {
		both(t, string(effects), func(t *testing.T, mutating bool) {
			w := newWorld(t, mutating)
			w.configure("c", w.everything("x", ignored, func(h *hook) { h.SideEffects = &effects }))
			_, err := w.admit(&admission.Request{Object: admissiontest.Pod(), DryRun: true})
			if got := fmt.Sprint(err); err == nil != (want == "") || err != nil && (got != want || !apierrors.IsBadRequest(err)) {
				t.Errorf("got %v, want %s", err, want)
			}
			if calls := w.calls(); len(calls) == 1 != (want == "") {
				t.Errorf("asked %q", calls)
			}
			if want == "" && !*w.question("/x").DryRun {
				t.Error("the webhook does not learn that it is a dry run")
			}
			if _, err := w.admit(&admission.Request{Object: admissiontest.Pod()}); err != nil {
				t.Errorf("not dry: got %v", err)
			}
		})
	}
	w := newWorld(t, false)
	w.configure("c", w.everything("x", func(h *hook) { h.SideEffects = nil }))
	if _, err := w.admit(&admission.Request{Object: admissiontest.Pod(), DryRun: true}); err == nil || err.Error() != failed+"Webhook SideEffects is nil" {
		t.Errorf("got %v", err)
	}
}

// TestQuestion checks what a webhook is asked.
func TestQuestion(t *testing.T) {
	for _, version := range []string{"v1", "v1beta1"} {
		both(t, version, func(t *testing.T, mutating bool) {
			w := newWorld(t, mutating)
			w.answer("/x", func(rw http.ResponseWriter, _ *http.Request, q *asked, _ *admissionv1.AdmissionResponse) bool {
				_, _ = fmt.Fprintf(rw, `{"apiVersion":"admission.k8s.io/%s","kind":"AdmissionReview","response":{"uid":%q,"allowed":true,"warnings":["a","b"]}}`, version, q.UID)
				return false
			})
			w.configure("c", w.everything("x", func(h *hook) { h.AdmissionReviewVersions = []string{"v9", version, "v1"} }))
			options := &metav1.UpdateOptions{TypeMeta: metav1.TypeMeta{APIVersion: "meta.k8s.io/v1", Kind: "UpdateOptions"}, FieldManager: "m"}
			warnings, err := w.admit(&admission.Request{
				Verb: admission.Update, Object: admissiontest.Pod(), Old: admissiontest.Pod(func(p *corev1.Pod) { p.Spec.NodeName = "n" }), Options: options,
			})
			if err != nil || !slices.Equal(warnings, []string{"a", "b"}) {
				t.Fatalf("got %q, %v", warnings, err)
			}
			var got map[string]any
			if err := json.Unmarshal(w.raw["/x"], &got); err != nil {
				t.Fatal(err)
			}
			request := got["request"].(map[string]any)
			if got["apiVersion"] != "admission.k8s.io/"+version || got["kind"] != "AdmissionReview" || got["response"] != nil || request["uid"] == "" {
				t.Errorf("got %v", got)
			}
			for key, want := range map[string]string{
				"kind": `{"group":"","kind":"Pod","version":"v1"}`, "resource": `{"group":"","resource":"pods","version":"v1"}`,
				"requestKind": `{"group":"","kind":"Pod","version":"v1"}`, "requestResource": `{"group":"","resource":"pods","version":"v1"}`,
				"name": `"p"`, "namespace": `"ns"`, "operation": `"UPDATE"`, "userInfo": `{"username":"alice"}`, "dryRun": "false",
				"options": `{"apiVersion":"meta.k8s.io/v1","fieldManager":"m","kind":"UpdateOptions"}`,
			} {
				if text, err := json.Marshal(request[key]); err != nil || string(text) != want {
					t.Errorf("%s: got %s, want %s", key, text, want)
				}
			}
			object, old := request["object"].(map[string]any), request["oldObject"].(map[string]any)
			if object["kind"] != "Pod" || object["apiVersion"] != "v1" || old["kind"] != "Pod" || old["spec"].(map[string]any)["nodeName"] != "n" {
				t.Errorf("got %v and %v", object, old)
			}
		})
	}
}

// TestService reaches a webhook by a Service whose EndpointSlice names its address.
func TestService(t *testing.T) {
	both(t, "", func(t *testing.T, mutating bool) {
		w := newWorld(t, mutating)
		w.configure("c", w.everything("x", func(h *hook) {
			h.ClientConfig.URL = nil
			h.ClientConfig.Service = &registrationv1.ServiceReference{Namespace: "ns", Name: "hook", Path: new("/p"), Port: new(int32(8443))}
		}))
		w.Put(&corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "hook"}, Spec: corev1.ServiceSpec{
			Type: corev1.ServiceTypeClusterIP, Ports: []corev1.ServicePort{{Name: "https", Port: 8443}},
		}})
		const none = failed + `failed to call webhook: Post "https://hook.ns.svc:8443/p?timeout=10s": no endpoints available for service "hook"`
		if _, err := w.admit(&admission.Request{Object: admissiontest.Pod()}); err == nil || err.Error() != none {
			t.Errorf("got  %v\nwant %s", err, none)
		}
		w.Put(&discoveryv1.EndpointSlice{
			ObjectMeta:  metav1.ObjectMeta{Namespace: "ns", Name: "hook-1", Labels: map[string]string{discoveryv1.LabelServiceName: "hook"}},
			AddressType: discoveryv1.AddressTypeIPv4, Endpoints: []discoveryv1.Endpoint{{Addresses: []string{"127.0.0.1"}}},
			Ports: []discoveryv1.EndpointPort{{Name: new("https"), Port: &w.Port}},
		})
		if _, err := w.admit(&admission.Request{Object: admissiontest.Pod()}); err != nil || !slices.Equal(w.calls(), []string{"/p"}) {
			t.Errorf("got %v", err)
		}
	})
}
