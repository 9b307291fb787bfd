package main

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestAnswer(t *testing.T) {
	for name, want := range map[string]string{
		"fine":    `"response":{"uid":"u","allowed":true}`,
		"refused": `"response":{"uid":"u","allowed":false,"status":{"message":"the pod refuses it"}}`,
	} {
		w := httptest.NewRecorder()
		body := `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"u","name":"` + name + `"}}`
		answer(w, httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", strings.NewReader(body)))
		if !strings.Contains(w.Body.String(), want) {
			t.Errorf("about %s it says %s, want %s", name, w.Body, want)
		}
	}
}
