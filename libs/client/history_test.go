package client_test

import (
	"net/http"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/garboard/garboard/libs/client"
	"github.com/garboard/garboard/libs/fabric"
	"github.com/garboard/garboard/libs/scheme"
)

// TestHistory checks that the history is that of the final response, not of earlier ones that asked
// for a retry.
func TestHistory(t *testing.T) {
	of := fabric.History{Created: 1800000000000000000, Nonce: 42}
	for name, one := range map[string]struct {
		headers []string
		want    fabric.History
	}{
		"said":            {[]string{of.String()}, of},
		"not sent":        {[]string{""}, fabric.History{}},
		"nonsense":        {[]string{"x"}, fabric.History{}},
		"with the second": {[]string{"", of.String()}, of},
		"with the first":  {[]string{of.String(), ""}, fabric.History{}},
		"first and other": {[]string{"1-0000000000000001", of.String()}, of},
	} {
		t.Run(name, func(t *testing.T) {
			n := 0
			c, _ := server(t, func(w http.ResponseWriter, r *http.Request) {
				header := one.headers[n%len(one.headers)]
				n++
				if header != "" {
					w.Header().Set(fabric.HistoryHeader, header)
				}
				if n%len(one.headers) != 0 {
					w.Header().Set("Retry-After", "0")
					answer(t, w, http.StatusTooManyRequests, &metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusFailure, Code: http.StatusTooManyRequests})
					return
				}
				if r.URL.Query().Get("watch") != "" {
					w.WriteHeader(http.StatusOK)
					return
				}
				answer(t, w, http.StatusOK, &corev1.PodList{ListMeta: metav1.ListMeta{ResourceVersion: "7"}})
			})
			kind := scheme.For[*corev1.Pod](c.Table())
			got := fabric.History{Created: 9}
			call := client.Call{Verb: "list", Kind: kind, Options: &metav1.ListOptions{}, History: &got}
			if err := c.Do(t.Context(), call, kind.NewList()); err != nil || got != one.want {
				t.Errorf("the history of the list is %v: %v", got, err)
			}
			got = fabric.History{Created: 9}
			call.Verb, call.Options = "watch", &metav1.ListOptions{Watch: true}
			var w watch.Interface
			w, err := c.Watch(t.Context(), call)
			if err != nil {
				t.Fatal(err)
			}
			w.Stop()
			for range w.ResultChan() {
			}
			if got != one.want {
				t.Errorf("the history of the watch is %v", got)
			}
			call.History = nil
			if err := c.Do(t.Context(), call, nil); err != nil {
				t.Errorf("a caller without a destination: %v", err)
			}
		})
	}
}
