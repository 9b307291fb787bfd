package client_test

import (
	"fmt"
	"net/http"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/garboard/garboard/libs/client"
	"github.com/garboard/garboard/libs/scheme"
)

// TestCustomResources reads objects of a custom kind with options, which its group does not have.
func TestCustomResources(t *testing.T) {
	c, requests := server(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprint(w, `{"apiVersion":"example.com/v1","kind":"Gadget","metadata":{"name":"g","namespace":"ns"}}`)
	})
	gadgets := client.OfKind[*unstructured.Unstructured](c, &scheme.Kind{
		GroupVersionKind: schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Gadget"},
		Custom:           true, Resource: "gadgets", Namespaced: true,
	})
	got, err := gadgets.Get(t.Context(), "ns", "g", metav1.GetOptions{ResourceVersion: "0"})
	if err != nil || got.GetName() != "g" {
		t.Fatalf("got %v, %v", got, err)
	}
	if all := requests(); all[0].path != "/apis/example.com/v1/namespaces/ns/gadgets/g" || all[0].query != "resourceVersion=0" {
		t.Errorf("got the request %s?%s", all[0].path, all[0].query)
	}
}
