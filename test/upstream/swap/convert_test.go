package swap

import (
	"encoding/base64"
	"encoding/json"
	"net/http"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/garboard/garboard/services/apiserver/internal/http/webhook/webhooktest"
)

// converter starts a webhook that converts axles: spec.length of v1 is spec.span of v2.
func converter(t *testing.T) *apiextensionsv1.WebhookClientConfig {
	t.Helper()
	server := webhooktest.Start(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var review apiextensionsv1.ConversionReview
		if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		review.Response = &apiextensionsv1.ConversionResponse{UID: review.Request.UID, Result: metav1.Status{Status: metav1.StatusSuccess}}
		for _, raw := range review.Request.Objects {
			obj := &unstructured.Unstructured{}
			if err := obj.UnmarshalJSON(raw.Raw); err != nil {
				http.Error(w, err.Error(), http.StatusBadRequest)
				return
			}
			rename(obj, review.Request.DesiredAPIVersion)
			review.Response.ConvertedObjects = append(review.Response.ConvertedObjects, runtime.RawExtension{Object: obj})
		}
		review.Request = nil
		w.Header().Set("Content-Type", runtime.ContentTypeJSON)
		if err := json.NewEncoder(w).Encode(review); err != nil {
			t.Errorf("answering a conversion: %v", err)
		}
	}))
	return &apiextensionsv1.WebhookClientConfig{URL: &server.URL, CABundle: server.CABundle}
}

// rename converts an axle.
func rename(obj *unstructured.Unstructured, version string) {
	from, to := "length", "span"
	if version == "swap.example.com/v1" {
		from, to = to, from
	}
	if spec, ok := obj.Object["spec"].(map[string]any); ok && spec[from] != nil {
		spec[to] = spec[from]
		delete(spec, from)
	}
	obj.SetAPIVersion(version)
}

func encoded(bundle []byte) string { return base64.StdEncoding.EncodeToString(bundle) }
