package server

import (
	"encoding/json"
	"errors"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// refuse responds with an error as a Status.
func refuse(w http.ResponseWriter, err error) {
	var known apierrors.APIStatus
	if !errors.As(err, &known) {
		known = apierrors.NewInternalError(err)
	}
	status := known.Status()
	if status.Code == 0 {
		status.Code = http.StatusInternalServerError
	}
	status.TypeMeta = metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(int(status.Code))
	_ = json.NewEncoder(w).Encode(status) // The caller is gone if this fails.
}

// refuseText responds with an error in the kubelet's form, which clients show as they receive it.
func refuseText(w http.ResponseWriter, code int, message string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(code)
	_, _ = w.Write([]byte(message)) // The caller is gone if this fails.
}

// responder responds to requests that a proxy could not pass on.
type responder struct{}

// Error implements proxy.ErrorResponder.
func (responder) Error(w http.ResponseWriter, _ *http.Request, err error) {
	code := http.StatusInternalServerError
	var known apierrors.APIStatus
	if errors.As(err, &known) && known.Status().Code != 0 {
		code = int(known.Status().Code)
	}
	refuseText(w, code, err.Error())
}
