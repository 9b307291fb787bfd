package quantity_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"github.com/garboard/garboard/libs/quantity"
	"github.com/garboard/garboard/libs/scheme"
)

// within fails a test that takes long: a quantity that is not refused takes seconds. What else the machine does does not
// count.
func within(t testing.TB) {
	t.Helper()
	start := used(t)
	t.Cleanup(func() {
		if took := used(t) - start; took > 10*time.Second {
			t.Errorf("it took %v of the processor", took)
		}
	})
}

// used returns the time of the processor that the process has taken.
func used(t testing.TB) time.Duration {
	t.Helper()
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		t.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// formats are the formats of bodies by their media types.
func formats() map[string]runtime.SerializerInfo {
	found := map[string]runtime.SerializerInfo{}
	for _, info := range scheme.New().Codecs().SupportedMediaTypes() {
		found[info.MediaType] = info
	}
	return found
}

// TestFormats fails when bodies have a format whose quantities nothing bounds.
func TestFormats(t *testing.T) {
	got := slices.Sorted(maps.Keys(formats()))
	if want := []string{runtime.ContentTypeJSON, runtime.ContentTypeProtobuf, runtime.ContentTypeYAML}; !slices.Equal(got, want) {
		t.Fatalf("got the formats %v, want %v", got, want)
	}
	_, err := quantity.Body(nil, runtime.SerializerInfo{MediaType: "application/cbor"}, podKind, &corev1.Pod{})
	if err == nil {
		t.Error("another format is accepted")
	}
}

var podKind = corev1.SchemeGroupVersion.WithKind("Pod")

// pod returns the JSON of a pod with a request for cpu, which is JSON, and an annotation.
func pod(cpu, annotation string) string {
	text, err := json.Marshal(annotation)
	if err != nil {
		panic(err)
	}
	return `{"kind":"Pod","apiVersion":"v1","metadata":{"name":"a","annotations":{"note":` + string(text) +
		`}},"spec":{"containers":[{"name":"c","resources":{"requests":{"cpu":` + cpu + `}}}]}}`
}

// TestBodyInJSON checks quantities in JSON, and in the same YAML.
func TestBodyInJSON(t *testing.T) {
	within(t)
	ones := strings.Repeat("1", 301)
	for _, c := range []struct{ name, body, want string }{
		{"none", pod(`"1"`, "x"), ""},
		{"exponent", pod(`"1e-30000000"`, "x"), `quantity "1e-30000000" has an exponent of more than 3 digits`},
		{"positive", pod(`"1E+300000000"`, "x"), "an exponent"},
		{"nothing but an exponent", pod(`"e300000000"`, "x"), "an exponent"},
		{"number", pod(`1e300000000`, "x"), "an exponent"},
		{"digits", pod(`"`+ones+`"`, "x"), "has more than 300 digits"},
		{"number of digits", pod(ones, "x"), "has more than 300 digits"},
		{"fraction", pod(`"0.`+ones+`"`, "x"), "has more than 300 digits"},
		{"space", pod(`"  1e-30000000 "`, "x"), "an exponent"},
		{"wide space", pod("\"\u20031e-30000000\u2003\"", "x"), "an exponent"},
		{"later", pod(`"1","memory":"1e-30000000"`, "x"), "an exponent"},
		{"twice", pod(`"1e-30000000","cpu":"1"`, "x"), "an exponent"},
		{"annotation", pod(`"1"`, "1e-30000000"), ""},
		{"annotation of digits", pod(`"1"`, ones), ""},
		{"annotation of JSON", pod(`"1"`, `{"cpu":"1e-30000000","n":1e30000,"\"e":`+ones+`}`), ""},
		{"annotation and quantity", pod(`"1e-30000000"`, "1e-12345"), `"1e-12345" has an exponent`},
		{"another fault", pod(`"abc"`, "1e-30000000"), "quantities must match"},
		{"another fault before", pod(`"abc","memory":"1e-30000000"`, "x"), "quantities must match"},
		{"another fault after", pod(`"1e-30000000","memory":"abc"`, "x"), "quantities must match"},
		{"largest", pod(`"1e999","a":"`+ones[1:]+`","b":123456789012345678901234567890`, "x"), ""},
	} {
		_, err := quantity.Body([]byte(c.body), formats()[runtime.ContentTypeJSON], podKind, &corev1.Pod{})
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q", c.name, err, c.want)
		}
		if c.name == "number" || c.name == "number of digits" || c.name == "twice" {
			continue // YAML has no such numbers or objects.
		}
		text, err := yaml.JSONToYAML([]byte(c.body))
		if err != nil {
			t.Fatal(err)
		}
		_, err = quantity.Body(text, formats()[runtime.ContentTypeYAML], podKind, &corev1.Pod{})
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) && !strings.Contains(c.name, "fault") {
			t.Errorf("%s in YAML: got %v, want %q", c.name, err, c.want)
		}
	}
	for _, text := range []string{"cpu: \"1\\x65-30000000\"", "cpu: \"1e\\\n   -30000000\"", "cpu: 1e-3000000_0", "cpu: >-\n  1e-30000000"} {
		body := "kind: LimitRange\napiVersion: v1\nspec: {limits: [{min: {\n" + text + "\n}}]}"
		if strings.Contains(text, ">") {
			body = "kind: LimitRange\napiVersion: v1\nspec:\n limits:\n - min:\n    cpu: >-\n      1e-30000000"
		}
		_, err := quantity.Body([]byte(body), formats()[runtime.ContentTypeYAML], corev1.SchemeGroupVersion.WithKind("LimitRange"), &corev1.LimitRange{})
		if refused := strings.Contains(fmt.Sprint(err), "has an exponent"); refused == strings.Contains(text, "_") {
			t.Errorf("%q: got %v", text, err)
		}
	}
}

// field returns a field of a protobuf message. Its length is written in more bytes than it needs, if spare is not 0.
func field(number byte, spare int, value []byte) []byte {
	data := []byte{number<<3 | 2}
	length := len(value)
	for length >= 0x80 || spare > 0 {
		data, length = append(data, byte(length)|0x80), length>>7
		spare--
	}
	return append(append(data, byte(length)), value...)
}

// TestBodyInProtobuf checks quantities of any length, with any byte before and after them.
func TestBodyInProtobuf(t *testing.T) {
	within(t)
	ones := strings.Repeat("1", 301)
	for _, c := range []struct {
		text   string
		refuse bool
	}{
		{"1e-30000000", true},
		{"e30000000", true},
		{"+1.5E30000000", true},
		{"-.e3000", true},
		{strings.Repeat("0", 37) + "1e30000000", true},       // 47 bytes: the length is a slash
		{strings.Repeat("0", 36) + "1e30000000", true},       // 46 bytes: a point
		{strings.Repeat("0", 34) + ".1e30000000", true},      // 45 bytes: a minus
		{strings.Repeat("0", 33) + "1e30000000", true},       // 43 bytes: a plus
		{strings.Repeat("0", 40) + "1e30000000", true},       // 50 bytes: a digit
		{strings.Repeat("0", 92) + "1e3000000", true},        // 101 bytes: the letter e
		{"+" + strings.Repeat("0", 39) + "1e30000000", true}, // a digit before a sign
		{"." + strings.Repeat("1", 39) + "1e30000000", true}, // a digit before a point
		{ones, true},                                          // 2 bytes of length
		{strings.Repeat("1", 6144), true},                     // whose last is a digit
		{"0." + strings.Repeat("1", 6142) + "Ki", true},       //
		{strings.Repeat("1", 6142) + ".0", true},              //
		{"0." + strings.Repeat("1", 5886) + "e-30", true},     // whose last is a point
		{"-0." + strings.Repeat("1", 6141-300) + "e-3", true}, //
		{"1e3", false}, {"123456789012345678901234567890", false}, {ones[1:], false}, {"0.5", false}, {"1e-999", false},
	} {
		for spare := range 3 {
			request := append(field(1, 0, []byte("cpu")), field(2, 0, field(1, spare, []byte(c.text)))...)
			requirements := field(2, 0, request)
			for _, after := range [][]byte{nil, field('2'>>3, 0, request), field('9'>>3, 0, []byte("0000"))} {
				container := append(field(1, 0, []byte("1e-30000000")), field(8, 0, append(slices.Clip(requirements), after...))...)
				object := append(field(1, 0, field(1, 0, []byte("a"))), field(2, 0, field(2, 0, container))...)
				body := append([]byte("k8s\x00"), append(field(1, 0, append(field(1, 0, []byte("v1")), field(2, 0, []byte("Pod"))...)), field(2, 0, object)...)...)
				_, err := quantity.Body(body, formats()[runtime.ContentTypeProtobuf], podKind, &corev1.Pod{})
				if costly := (*quantity.CostlyError)(nil); errors.As(err, &costly) != c.refuse || !c.refuse && err != nil {
					t.Errorf("%.60q, %d bytes, %d spare: got %v", c.text, len(c.text), spare, err)
				}
			}
		}
	}
}

// TestNumbersOfProtobuf checks what Kubernetes' decoder reads, but others refuse: numbers of more than 64 bits.
func TestNumbersOfProtobuf(t *testing.T) {
	within(t)
	const long = "\x80\x80\x80\x80\x80\x80\x80\x80\x7e" // The last ten bits are none of 64.
	amount := "\x8a" + long + "\x8b" + long + "1e-30000000"
	request := string(field(1, 0, []byte("cpu"))) + "\x92" + long + string([]byte{byte(len(amount))}) + amount
	for _, unknown := range []string{"", "\xf8\x01\x80" + long, "\xfb\x01\xf8\x01\x00\xfc\x01", "\xfd\x01abcd", "\xf9\x011e123456"} {
		requirements := field(2, 0, append([]byte(unknown), request...))
		object := field(2, 0, field(2, 0, append([]byte(unknown), field(8, 0, requirements)...)))
		body := append([]byte("k8s\x00"), append(field(1, 0, append(field(1, 0, []byte("v1")), field(2, 0, []byte("Pod"))...)), field(2, 0, object)...)...)
		_, err := quantity.Body(body, formats()[runtime.ContentTypeProtobuf], podKind, &corev1.Pod{})
		if costly := (*quantity.CostlyError)(nil); !errors.As(err, &costly) {
			t.Errorf("%q: got %v", unknown, err)
		}
	}
}

// TestFields checks quantities in an object without a Go type.
func TestFields(t *testing.T) {
	within(t)
	for body, want := range map[string]string{
		pod(`"1e-30000000"`, "x"):           `quantity "1e-30000000" has an exponent of more than 3 digits`,
		pod(`"\u0031\u0065-30000000"`, "x"): "an exponent",
		pod(`"1e3"`, "1e-30000000"):         "",
		pod(`"abc"`, "1e-30000000"):         "quantities must match",
		pod(`1`, "x"):                       "",
	} {
		var fields map[string]any
		if err := json.Unmarshal([]byte(body), &fields); err != nil {
			t.Fatal(err)
		}
		err := quantity.Fields(fields, func(fields map[string]any) error {
			return runtime.DefaultUnstructuredConverter.FromUnstructured(fields, &corev1.Pod{})
		})
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", body, err, want)
		}
	}
}

// TestHostileBodies scans bodies that make a scan look at the same bytes again and again, if anything does.
func TestHostileBodies(t *testing.T) {
	within(t)
	const size = 256 << 10 // A scan that looks at each byte once for every other takes minutes; one pass takes milliseconds.
	find := func([]byte) error { return nil }
	for _, part := range []string{
		"1", "1e1111", "e1111", "1e1111 ", "1-", "1.", "1e-1111.", strings.Repeat("1", 301) + ".", strings.Repeat("1", 301) + "-", strings.Repeat("1", 301) + "e", "\xff\xff1", "\x05e1111",
		strings.Repeat("1", 301) + "\\\"", "2" + strings.Repeat("0", 45) + "e1111", " ", "\\", "-", "e", "\x801" + strings.Repeat("1", 301),
	} {
		text := strings.Repeat(part, size/len(part))
		for _, body := range []string{text, `{"a":"` + text + `"}`, `{"a":"` + text, "k8s\x00" + text} {
			for _, check := range []func([]byte, func([]byte) error) error{quantity.JSON, quantity.Protobuf} {
				if err := check([]byte(body), find); err != nil {
					t.Errorf("%q: %v", part, err)
				}
			}
		}
	}
}

// FuzzBody checks that a body that is not refused has no costly quantity, and that only such bodies are refused that
// cannot be decoded or have one.
func FuzzBody(f *testing.F) {
	found := formats()
	types := []string{runtime.ContentTypeJSON, runtime.ContentTypeProtobuf, runtime.ContentTypeYAML}
	object := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "a", Labels: map[string]string{"version": "1e12345"}},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "1e-1234", Resources: corev1.ResourceRequirements{
			Requests: corev1.ResourceList{"cpu": resource.MustParse("1500m"), "memory": resource.MustParse("1e-5")},
			Limits:   corev1.ResourceList{"cpu": resource.MustParse("1e1234")},
		}}}},
	}
	object.SetGroupVersionKind(podKind)
	for i, kind := range types {
		var data bytes.Buffer
		if err := found[kind].Serializer.Encode(object, &data); err != nil {
			f.Fatal(err)
		}
		f.Add(uint8(i), data.Bytes())
	}
	for _, text := range []string{
		pod(`"1e-1234"`, "1e1234"), pod("1e1234", `"`), pod("1", `\"1e1234`), pod(`"e1234"`, ""), pod(`"abc"`, strings.Repeat("1", 301)), pod(`"`+strings.Repeat("1", 301)+`"`, ""),
	} {
		f.Add(uint8(0), []byte(text))
		f.Add(uint8(2), []byte(text))
	}
	f.Fuzz(func(t *testing.T, which uint8, body []byte) {
		info := found[types[int(which)%len(types)]]
		_, refused := quantity.Body(body, info, podKind, &corev1.Pod{})
		costly := (*quantity.CostlyError)(nil)
		if refused != nil && errors.As(refused, &costly) && len(costly.Error()) > 120 {
			t.Skip("to decode it might take long")
		}
		got := &corev1.Pod{}
		_, _, err := info.Serializer.Decode(slices.Clone(body), &podKind, got)
		switch {
		case refused != nil && costly == nil && err == nil:
			t.Errorf("%q: refused for %v, but it can be decoded", body, refused)
		case refused == nil && err == nil:
			for _, c := range got.Spec.Containers {
				for name, q := range c.Resources.Requests {
					if dec := q.AsDec(); dec.Scale() < -2000 || dec.UnscaledBig().BitLen() > 10_000 {
						t.Errorf("%q: accepted, and %s has the scale %d", body, name, dec.Scale())
					}
				}
			}
			again := &corev1.Pod{}
			if _, _, err := info.Serializer.Decode(body, &podKind, again); err != nil || !equality.Semantic.DeepEqual(got, again) {
				t.Errorf("%q: the body was changed", body)
			}
		}
	})
}

// BenchmarkBody scans a list of pods, which has hashes, but nothing like a costly quantity.
func BenchmarkBody(b *testing.B) {
	list := &corev1.PodList{}
	for i := range 2000 {
		list.Items = append(list.Items, corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{
				Name: fmt.Sprintf("web-7f9c6d5b8-%05d", i), Namespace: "default", UID: "6f1e1234-0c57-4b1e-9d7e-2c5a1e98765f", Labels: map[string]string{"app": "web", "pod-template-hash": "7f9c6d5b8"},
				CreationTimestamp: metav1.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC),
			},
			Spec: corev1.PodSpec{NodeName: "node-12", Containers: []corev1.Container{{
				Name: "web", Image: "registry.example.com/web@sha256:c1e2345d6f7a8b9c0d1e2f3a4b5c6d7e8f90a1b2c3d4e56789a0b1c2d3e4f5a6",
				Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{"cpu": resource.MustParse("100m"), "memory": resource.MustParse("128Mi")}},
				Env:       []corev1.EnvVar{{Name: "LONG_TEXT", Value: strings.Repeat("some words of a value ", 10)}},
			}}},
		})
	}
	list.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("PodList"))
	for kind, info := range formats() {
		if kind == runtime.ContentTypeYAML {
			continue
		}
		var data bytes.Buffer
		if err := info.Serializer.Encode(list, &data); err != nil {
			b.Fatal(err)
		}
		b.Run(strings.TrimPrefix(kind, "application/"), func(b *testing.B) {
			b.SetBytes(int64(data.Len()))
			for b.Loop() {
				if _, err := quantity.Body(data.Bytes(), info, list.GroupVersionKind(), list); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
