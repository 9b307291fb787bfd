package sample

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"
)

// TrapGroup is the API group of the kinds with which the benchmark of hostile requests burdens an apiserver.
const TrapGroup = "hostile.example.com"

// Rules returns a definition with n CEL rules. Kubernetes compiles them all, then refuses them: what they
// may cost has no bound.
func Rules(n int) []byte {
	rules := make([]any, n)
	for i := range rules {
		rules[i] = map[string]any{"rule": fmt.Sprintf("self.items.all(a, self.items.all(b, a != b || a.startsWith('%d')))", i)}
	}
	return definition("Rule", map[string]any{
		"type": "object", "x-kubernetes-validations": rules,
		"properties": map[string]any{"items": map[string]any{"type": "array", "items": map[string]any{"type": "string"}}},
	}, nil)
}

// Traps is the definition of traps. The rule of their spec costs nearly as much as a rule may.
func Traps() []byte {
	return definition("Trap", map[string]any{
		"type":                     "object",
		"x-kubernetes-validations": []any{map[string]any{"rule": "self.items.all(a, self.items.all(b, a + b >= 0))"}},
		"properties": map[string]any{
			"items": map[string]any{"type": "array", "maxItems": trapItems, "items": map[string]any{"type": "integer"}},
		},
	}, nil)
}

// trapItems is the length of a trap's list: its square is the number of comparisons.
const trapItems = 700

// Trap returns a trap that makes its rule do all the work.
func Trap(namespace, name string) []byte {
	return object("Trap", namespace, name, "v1", map[string]any{"items": make([]int, trapItems)})
}

// Twins is the definition of twins: two versions, which the webhook at url converts.
func Twins(url string, ca []byte) []byte {
	return definition("Twin", map[string]any{"type": "object", "x-kubernetes-preserve-unknown-fields": true}, map[string]any{
		"strategy": "Webhook",
		"webhook": map[string]any{
			"conversionReviewVersions": []any{"v1"}, "clientConfig": map[string]any{"url": url, "caBundle": ca},
		},
	})
}

// Twin returns a twin in version v1.
func Twin(namespace, name string) []byte {
	return object("Twin", namespace, name, "v1", map[string]any{"text": "x"})
}

// Webhook returns a webhook at url that is asked about each new gadget.
func Webhook(url string, ca []byte) []byte {
	return text(map[string]any{
		"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration", "metadata": map[string]any{"name": "hostile"},
		"webhooks": []any{map[string]any{
			"name": "hostile.example.com", "admissionReviewVersions": []any{"v1"}, "sideEffects": "None", "timeoutSeconds": 2,
			"clientConfig": map[string]any{"url": url, "caBundle": ca},
			"rules": []any{map[string]any{
				"apiGroups": []any{GadgetGroup}, "apiVersions": []any{"v1"}, "operations": []any{"CREATE"}, "resources": []any{"gadgets"},
			}},
		}},
	})
}

// definition returns the definition of a kind with versions v1 and v2, which have the same schema.
func definition(kind string, spec, conversion map[string]any) []byte {
	plural := strings.ToLower(kind) + "s"
	version := func(name string) map[string]any {
		return map[string]any{
			"name": name, "served": true, "storage": name == "v1",
			"schema": map[string]any{"openAPIV3Schema": map[string]any{"type": "object", "properties": map[string]any{"spec": spec}}},
		}
	}
	body := map[string]any{
		"group": TrapGroup, "scope": "Namespaced", "names": map[string]any{"plural": plural, "kind": kind},
		"versions": []any{version("v1"), version("v2")},
	}
	if conversion != nil {
		body["conversion"] = conversion
	}
	return text(map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
		"metadata": map[string]any{"name": plural + "." + TrapGroup}, "spec": body,
	})
}

// object returns an object of one of the kinds above.
func object(kind, namespace, name, version string, spec map[string]any) []byte {
	return text(map[string]any{
		"apiVersion": TrapGroup + "/" + version, "kind": kind, "metadata": map[string]any{"namespace": namespace, "name": name}, "spec": spec,
	})
}

func text(value map[string]any) []byte {
	data, err := json.Marshal(value)
	if err != nil {
		panic(err) // It has only texts, numbers, maps and lists.
	}
	return data
}

// hugeAnswer is the size of a hostile webhook's answer in bytes.
const hugeAnswer = 16 << 20

// BadAnswers returns a webhook that is slow, or answers with a huge body, garbage or the wrong uid.
func BadAnswers() http.Handler {
	var mu sync.Mutex
	n, huge := 0, bytes.Repeat([]byte("["), hugeAnswer)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		n++
		turn := n % 4
		mu.Unlock()
		w.Header().Set("Content-Type", "application/json")
		var body []byte
		switch turn {
		case 0:
			select {
			case <-r.Context().Done():
			case <-time.After(time.Second):
			}
		case 1:
			body = huge
		case 2:
			body = []byte("\x00{]")
		case 3:
			body = []byte(`{"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": {"uid": "other", "allowed": true}}`)
		}
		_, _ = w.Write(body) // The apiserver may end the connection.
	})
}
