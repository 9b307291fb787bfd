package rest

import (
	"bytes"
	"errors"
	"net/http"
	"net/url"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/garboard/garboard/libs/scheme"
)

// FuzzDecode decodes bodies in every format, and checks that accepted objects can be stored and
// read back unchanged.
func FuzzDecode(f *testing.F) {
	table := scheme.New()
	h := &Handler{Config: Config{Table: table}, table: table}
	kinds := []*scheme.Kind{scheme.For[*corev1.Pod](table), scheme.For[*corev1.ConfigMap](table), scheme.For[*appsv1.Deployment](table)}
	infos := table.Codecs().SupportedMediaTypes()
	directives := []string{"", metav1.FieldValidationWarn, metav1.FieldValidationStrict, metav1.FieldValidationIgnore}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", Labels: map[string]string{"a": "b"}}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}}}
	pod.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Pod"))
	for i, info := range infos {
		var data bytes.Buffer
		if err := info.Serializer.Encode(pod, &data); err != nil {
			f.Fatal(err)
		}
		for which := range uint8(3) {
			f.Add(uint8(i), which, which, data.Bytes())
		}
	}
	for _, body := range []string{
		"", "{", "[]", "null", `{"kind":"ConfigMap"}`, `{"data":{"a":"1","a":"2"},"unheardOf":{}}`, `{"metadata":{"labels":{"a":null}}}`,
		"a: &a [*a]", "a: &a [x,x]\nb: &b [*a,*a]\nc: [*b,*b]\n", "kind: ConfigMap\ndata: {a: yes}\n", "--- \n---\n", "k8s\x00", "k8s\x00\x0a\x0f\x0a\x02v1\x12\x09ConfigMap",
		`{"spec":{"replicas":1e400}}`, `{"spec":{"replicas":9223372036854775808}}`, "{\"data\":{\"\xff\":\"\xff\"}}",
	} {
		for i := range infos {
			f.Add(uint8(i), uint8(1), uint8(i), []byte(body))
		}
	}
	f.Fuzz(func(t *testing.T, format, which, how uint8, body []byte) {
		kind := kinds[int(which)%len(kinds)]
		r := &http.Request{Header: http.Header{"Content-Type": {infos[int(format)%len(infos)].MediaType}}}
		into := kind.New()
		c := &call{Handler: h, r: r, req: Request{Target: Target{Kind: kind}}}
		_, err := c.decode(body, kind.GroupVersionKind, into, directives[int(how)%len(directives)])
		if err != nil {
			if !apierrors.IsBadRequest(err) {
				t.Errorf("%q: got error %v, want 400", body, err)
			}
			return
		}
		into.GetObjectKind().SetGroupVersionKind(kind.GroupVersionKind)
		stored, err := table.EncodeStorage(kind, into)
		if err != nil {
			return // writing refuses text that is not UTF-8
		}
		again, err := table.DecodeStorage(kind, stored)
		if err != nil {
			t.Fatalf("%q can be written but not read: %v", body, err)
		}
		second, err := table.EncodeStorage(kind, again)
		if err != nil || !bytes.Equal(stored, second) {
			t.Errorf("%q is first stored as\n%q and then as\n%q, %v", body, stored, second, err)
		}
	})
}

// FuzzContentType parses the content type of a body.
func FuzzContentType(f *testing.F) {
	table := scheme.New()
	h := &Handler{Config: Config{Table: table}, table: table}
	for _, header := range []string{"", "application/json", "application/json; charset=utf-8", "application/vnd.kubernetes.protobuf", "application/yaml;q=", "/", ";", "application/json,application/yaml"} {
		f.Add(header)
	}
	f.Fuzz(func(t *testing.T, header string) {
		info, err := h.bodyFormat(&http.Request{Header: http.Header{"Content-Type": {header}}}, nil)
		var status apierrors.APIStatus
		if err == nil && info.Serializer == nil || err != nil && (!errors.As(err, &status) || status.Status().Code != http.StatusUnsupportedMediaType) {
			t.Errorf("%q: got %v, %v", header, info, err)
		}
	})
}

// FuzzOptions decodes the options of every verb from a query.
func FuzzOptions(f *testing.F) {
	table := scheme.New()
	h := &Handler{Config: Config{Table: table}, table: table}
	for _, query := range []string{
		"", "limit=1&continue=x", "limit=x", "resourceVersion=1&resourceVersionMatch=Exact", "watch=1&timeoutSeconds=-1", "allowWatchBookmarks=maybe",
		"dryRun=All&dryRun=All", "fieldManager=%ff", "gracePeriodSeconds=9223372036854775808", "propagationPolicy=Orphan&orphanDependents=1", "sendInitialEvents=",
		"preconditions=x", "force=true&fieldValidation=Strict", "includeObject=Object",
	} {
		f.Add(query)
	}
	f.Fuzz(func(t *testing.T, query string) {
		values, err := url.ParseQuery(query)
		if err != nil {
			return
		}
		for _, into := range []runtime.Object{
			&metav1.ListOptions{}, &metav1.GetOptions{}, &metav1.CreateOptions{}, &metav1.UpdateOptions{}, &metav1.PatchOptions{}, &metav1.DeleteOptions{},
		} {
			if err := h.options(values, into); err != nil && !apierrors.IsBadRequest(err) {
				t.Errorf("%q into %T: got error %v, want 400", query, into, err)
			}
		}
	})
}
