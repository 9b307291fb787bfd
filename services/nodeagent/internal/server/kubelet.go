package server

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/garboard/garboard/services/nodeagent/internal/runtime"
)

// check is one of the health checks.
type check struct {
	name string
	run  func(ctx context.Context) error
}

// health adds the health checks to the server: each has a path, and /healthz makes them all.
func (s *Server) health() {
	healthy := func(context.Context) error { return nil }
	checks := []check{{"ping", healthy}, {"log", healthy}, {"syncloop", func(context.Context) error { return s.cfg.SyncLoop() }}}
	s.mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, r *http.Request) { answerHealth(w, r, checks) })
	for _, one := range checks {
		s.mux.HandleFunc("GET /healthz/"+one.name, func(w http.ResponseWriter, r *http.Request) {
			if err := one.run(r.Context()); err != nil {
				http.Error(w, fmt.Sprintf("internal server error: %v", err), http.StatusInternalServerError)
				return
			}
			healthText(w, "ok")
		})
	}
}

// answerHealth makes all checks. The reasons of failures stay with the node.
func answerHealth(w http.ResponseWriter, r *http.Request, checks []check) {
	var report strings.Builder
	failed := false
	for _, one := range checks {
		if slices.Contains(r.URL.Query()["exclude"], one.name) {
			_, _ = fmt.Fprintf(&report, "[+]%s excluded: ok\n", one.name)
		} else if err := one.run(r.Context()); err != nil {
			failed = true
			_, _ = fmt.Fprintf(&report, "[-]%s failed: reason withheld\n", one.name)
		} else {
			_, _ = fmt.Fprintf(&report, "[+]%s ok\n", one.name)
		}
	}
	switch {
	case failed:
		http.Error(w, report.String()+"healthz check failed", http.StatusInternalServerError)
	case r.URL.Query().Has("verbose"):
		healthText(w, report.String()+"healthz check passed\n")
	default:
		healthText(w, "ok")
	}
}

func healthText(w http.ResponseWriter, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	_, _ = w.Write([]byte(text)) // The caller is gone if this fails.
}

// podList serves the pods that the API wants on this node.
func (s *Server) podList(w http.ResponseWriter, _ *http.Request) {
	list := newPodList()
	for _, pod := range s.cfg.Pods() {
		list.Items = append(list.Items, *pod)
	}
	respond(w, list)
}

func newPodList() *corev1.PodList {
	return &corev1.PodList{TypeMeta: metav1.TypeMeta{Kind: "PodList", APIVersion: "v1"}, Items: []corev1.Pod{}}
}

// runningPods serves the pods that run according to the runtime, wanted or not.
func (s *Server) runningPods(w http.ResponseWriter, _ *http.Request) {
	list := newPodList()
	for _, state := range s.cfg.States() {
		running := state.Running()
		if len(running) == 0 && state.ReadySandbox() == nil {
			continue
		}
		pod := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: state.Namespace, Name: state.Name, UID: types.UID(state.UID)}}
		for _, c := range running {
			pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{Name: c.Name, Image: c.Image})
		}
		list.Items = append(list.Items, pod)
	}
	slices.SortFunc(list.Items, func(a, b corev1.Pod) int {
		return strings.Compare(a.Namespace+"/"+a.Name+"/"+string(a.UID), b.Namespace+"/"+b.Name+"/"+string(b.UID))
	})
	respond(w, list)
}

// configuration serves what the agent is configured with.
func (s *Server) configuration(w http.ResponseWriter, _ *http.Request) {
	respond(w, map[string]any{"kubeletconfig": s.cfg.Configuration})
}

// run runs a command in a container, and serves its output when it has ended. It counts as a session.
func (s *Server) run(w http.ResponseWriter, r *http.Request) {
	pod := s.pod(r)
	if uid := r.PathValue("uid"); pod == nil || uid != "" && uid != string(pod.UID) {
		refuseText(w, http.StatusNotFound, "pod does not exist")
		return
	}
	name := r.PathValue("container")
	container := s.running(pod, name)
	if container == nil {
		refuseText(w, http.StatusInternalServerError, fmt.Sprintf("container not found (%q)", name))
		return
	}
	command := strings.Split(r.URL.Query().Get("cmd"), " ")
	stdout, stderr, code, err := s.cfg.Runtime.ExecSync(r.Context(), container.ID, command, 0)
	switch {
	case err != nil:
		refuseText(w, http.StatusInternalServerError, runtime.Describe(err))
	case code != 0:
		refuseText(w, http.StatusInternalServerError, fmt.Sprintf("command '%s' exited with %d: %s", strings.Join(command, " "), code, stderr))
	default:
		// A browser must not run what a container printed.
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("X-Content-Type-Options", "nosniff")
		_, _ = w.Write(append(stdout, stderr...)) // The caller is gone if this fails.
	}
}
