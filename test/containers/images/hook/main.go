// Command hook is a validating webhook for tests, as a pod: it refuses objects named "refused". It serves TLS on
// port 8443, with the certificate in /tls.
package main

import (
	"encoding/json"
	"log/slog"
	"net/http"
	"os"
	"time"
)

// review is what it reads and writes of an AdmissionReview of admission.k8s.io/v1.
type review struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Request    struct {
		UID  string `json:"uid"`
		Name string `json:"name"`
	} `json:"request,omitzero"`
	Response *response `json:"response,omitempty"`
}

type response struct {
	UID     string `json:"uid"`
	Allowed bool   `json:"allowed"`
	Status  status `json:"status,omitzero"`
}

type status struct {
	Message string `json:"message"`
}

func main() {
	server := &http.Server{Addr: ":8443", Handler: http.HandlerFunc(answer), ReadHeaderTimeout: time.Minute}
	slog.Error("the webhook has ended", "err", server.ListenAndServeTLS("/tls/tls.crt", "/tls/tls.key"))
	os.Exit(1)
}

func answer(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost {
		return // a probe
	}
	var asked review
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 1<<20)).Decode(&asked); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	said := review{APIVersion: asked.APIVersion, Kind: asked.Kind, Response: &response{UID: asked.Request.UID}}
	if said.Response.Allowed = asked.Request.Name != "refused"; !said.Response.Allowed {
		said.Response.Status.Message = "the pod refuses it"
	}
	w.Header().Set("Content-Type", "application/json")
	if err := json.NewEncoder(w).Encode(said); err != nil {
		slog.Error("answering a review", "err", err)
	}
}
