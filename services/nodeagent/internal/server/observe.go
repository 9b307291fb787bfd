package server

import (
	"encoding/json"
	"fmt"
	"net/http"
)

// summary serves what the node and its pods use, as the kubelet's summary API.
func (s *Server) summary(w http.ResponseWriter, r *http.Request) {
	wanted := r.URL.Query()["only_cpu_and_memory"]
	summary, err := s.cfg.Stats.Summary(r.Context(), len(wanted) == 1 && wanted[0] == "true")
	if err != nil {
		refuseText(w, http.StatusInternalServerError, fmt.Sprintf("Internal Error: %v", err))
		return
	}
	respond(w, summary)
}

// respond responds with a value as JSON.
func respond(w http.ResponseWriter, value any) {
	data, err := json.MarshalIndent(value, "", " ")
	if err != nil {
		refuseText(w, http.StatusInternalServerError, err.Error())
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(data) // The caller is gone if this fails.
}
