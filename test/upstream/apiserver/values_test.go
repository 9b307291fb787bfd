package upstream

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"reflect"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// Expressions of policies and webhooks: right and wrong ones of each type, by what they read.
var expressions = []string{
	"object.spec.replicas > 5", "oldObject == null", "params.limit > 3", "params", "variables.a", "variables.a == 1", "variables.web == true",
	"has(object.metadata.labels) && object.metadata.labels.all(k, k != 'a')", "namespaceObject.metadata.name == 'a'", "namespaceObject.spec",
	"request.userInfo.username == 'jane'", "request.nope", "authorizer.group('apps').resource('deployments').check('get').allowed()",
	"authorizer.requestResource.check('get').allowed()", "'text'", "'a' + string(object.spec.replicas)", "null", "1", "nope", "a.b", "'a", "[1, 'a']",
	"object.spec.replicas > 5 ? 'too many' : null", "Object{}", "Object{spec: Object.spec{replicas: 1}}", "Object{metadata: 1}", "Object.spec{}",
	`[JSONPatch{op: "add", path: "/metadata/labels/" + jsonpatch.escapeKey("a/b"), value: "c"}]`, `[JSONPatch{op: 1}]`, "[]", `JSONPatch{op: "add"}`,
	"isURL('https://example.com')", "quantity('1Gi').isLessThan(quantity('2Gi'))", "ip('10.0.0.1').family() == 4", "semver('1.0.0').major() == 1",
	"format.dns1123Label().validate('A').hasValue()", "dyn(1) == 1", "object.a.\n\n.b", "[1, 2].sum() == 3", "'a'.matches('[')", "duration('1h') > duration('x')",
	strings.Repeat("(", 300) + "1" + strings.Repeat(")", 300), "'" + strings.Repeat("a", 6<<10) + "'", "é == 1", "size(object.spec.list.map(x, x)) < 3",
}

// Words for strings, most of them good for something and wrong for the rest. Fields whose names end
// in a key of special get words of their own as well.
var (
	words = []string{
		"", "a", "web", "web-1", "example.com", "example.com/a", "a.b.c", "Bad_Name", "-x", "x-", "a..b", "a/b/c", "/", "é", "1", "0", "true",
		"kubernetes.io/x", "k8s.io/y", "system:x", "a b", " ", "*", "a=b", "UPPER", ".", "..",
		strings.Repeat("a", 63), strings.Repeat("a", 64), strings.Repeat("a", 253), strings.Repeat("a", 254),
		strings.Repeat("a.", 126) + "aa",
	}
	special = map[string][]string{
		"Path":         {"/", "/a/b", "a/b", "../a", "/a/../b", "a:b", "/a:b", "/proc", "//a", "/a%zz"},
		"IP":           {"10.0.0.1", "010.0.0.1", "::1", "2001:db8::1", "2001:DB8::1", "127.0.0.1", "169.254.1.1", "224.0.0.1", "0.0.0.0", "None", "256.0.0.1"},
		"IPs":          {"10.0.0.1", "10.0.0.2", "::1", "fd00::1", "None", "nope"},
		"Addresses":    {"10.0.0.1", "fd00::1", "example.com", "127.0.0.1"},
		"CIDR":         {"10.0.0.0/8", "10.0.0.1/8", "2001:db8::/32", "10.0.0.0/33", "10.0.0.0", "010.0.0.0/8"},
		"CIDRs":        {"10.0.0.0/8", "10.0.0.1/8", "2001:db8::/32", "10.0.0.0/33"},
		"Ranges":       {"10.0.0.0/8", "10.0.0.1/8", "2001:db8::/32", "10.0.0.0/33"},
		"Except":       {"10.0.0.0/24", "10.0.0.0/8", "11.0.0.0/24"},
		"Host":         {"example.com", "*.example.com", "*", "10.0.0.1", "*.*.com"},
		"Hosts":        {"example.com", "*.example.com", "*", "10.0.0.1"},
		"Hostname":     {"a", "a.b", "A"},
		"Image":        {"nginx", "nginx:1", " nginx", ""},
		"URL":          {"https://example.com/a", "http://example.com", "https://u@example.com", "https://example.com/?a=b", "nope"},
		"Verbs":        {"get", "list", "*", "use"},
		"APIGroups":    {"", "apps", "*"},
		"Resources":    {"pods", "pods/log", "*", "*/scale", "pods/*", "*/*"},
		"APIVersions":  {"v1", "*"},
		"APIVersion":   {"v1", "apps/v1", "a/b/c", "V1"},
		"Kind":         {"Pod", "Service", "Role", "ClusterRole", "User", "Group", "ServiceAccount", "Deployment"},
		"APIGroup":     {"", "rbac.authorization.k8s.io", "apps", "snapshot.storage.k8s.io"},
		"Schedule":     {"* * * * *", "@daily", "TZ=UTC * * * * *", "61 * * * *", "* * * *", "CRON_TZ=UTC 0 0 * * *"},
		"TimeZone":     {"Etc/UTC", "Europe/Zurich", "Local", "Nope/Nowhere", ""},
		"Expression":   append([]string{"true", "object.spec.x == 1", "1 +", "", " true "}, expressions...),
		"Key":          {"a", "example.com/a", "Bad Key", "metadata.name", "kubernetes.io/hostname", "node.kubernetes.io/not-ready"},
		"FieldPath":    {"metadata.name", "metadata.namespace", "metadata.labels['a']", "metadata.annotations", "spec.nodeName", "status.podIP", "spec.nope"},
		"Resource":     {"limits.cpu", "requests.memory", "limits.nope", "pods", "limits.ephemeral-storage"},
		"TopologyKey":  {"kubernetes.io/hostname", "topology.kubernetes.io/zone", ""},
		"SignerName":   {"kubernetes.io/kubelet-serving", "example.com/signer", "nope"},
		"Driver":       {"example.com", "csi.example.com", "Bad_"},
		"Name":         {"a", "web", "web.example.com", "cpu", "memory"},
		"Names":        {"a", "web", "web.example.com"},
		"Provisioner":  {"example.com/a", "kubernetes.io/no-provisioner"},
		"MountOptions": {"ro", "soft"},
		"Command":      {"sh", ""},
		"Envs":         {"A", "a.b", "1A", "A=B"},
		"User":         {"jane", "system:anonymous"},
		"Zone":         {"a", "b"},
		"Effect":       {"NoSchedule", "NoExecute"},
		"PodCIDR":      {"10.1.0.0/24", "10.1.0.1/24", "fd00::/64"},
		"ProviderID":   {"a://b"},
		"Reason":       {"Reason", "bad reason", "example.com/Reason", "1"},
		"UserName":     {"ContainerUser", "a\\b"},
		"Group":        {"apps", "", "example.com"},
		"Version":      {"v1", "v1beta1", "1"},
		"Unit":         {"a"},
	}
	keys      = []string{"a", "app", "example.com/a", "kubernetes.io/arch", "Bad Key", "", "-", strings.Repeat("a", 64), "tls.crt", "tls.key", "a.b", "../x", ".dockerconfigjson", "A/b"}
	resources = []string{
		"cpu", "memory", "ephemeral-storage", "storage", "pods", "hugepages-2Mi", "hugepages-1Gi", "example.com/gpu", "requests.cpu", "limits.memory",
		"nope", "count/pods", "services.loadbalancers", "attachable-volumes-x", "kubernetes.io/x", "requests.storage", "gold.storageclass.storage.k8s.io/requests.storage", "",
	}
	quantities = []string{"0", "1", "2", "100m", "1500m", "0.5m", "-1", "1Gi", "128Mi", "10E", "1k", "1e3", "2Mi", "3Mi", "500M"}
	// numbers include the limits of ports, weights, users and identifiers.
	numbers = []int64{0, 1, 2, 3, 5, 10, 30, 80, 100, 101, 443, 1000, 1001, 65535, 65536, -1, -2, 255, 256, 600, 3600, math.MaxInt32, math.MinInt32, math.MaxInt64}
	bodies  = []string{"", "a", "{}", `{"a":1}`, `[]`, "{", "\xff", strings.Repeat("a", 300)}
	moments = []string{"1999-12-31T23:00:00Z", "1999-12-01T00:00:00Z", "2000-01-01T01:00:00Z", "1990-01-01T00:00:00Z"}
)

// Values makes values of any Go type of the API.
type Values struct {
	random    *rand.Rand
	constants map[string][]string
}

var (
	quantityType = reflect.TypeFor[resource.Quantity]()
	timeType     = reflect.TypeFor[metav1.Time]()
	microType    = reflect.TypeFor[metav1.MicroTime]()
	durationType = reflect.TypeFor[metav1.Duration]()
	intOrStrType = reflect.TypeFor[intstr.IntOrString]()
	rawType      = reflect.TypeFor[runtime.RawExtension]()
	fieldsType   = reflect.TypeFor[metav1.FieldsV1]()
	listType     = reflect.TypeFor[corev1.ResourceList]()
)

// whole reports whether a type is changed as a whole, not by its fields.
func whole(t reflect.Type) bool {
	switch t {
	case quantityType, timeType, microType, durationType, intOrStrType, rawType, fieldsType:
		return true
	}
	return t.Kind() != reflect.Struct
}

// fill sets v to a random value. name is the name of the field that holds it. Optional parts are
// filled with a probability that falls with depth.
func (g *Values) fill(v reflect.Value, name string, depth int) {
	switch v.Type() {
	case quantityType:
		v.Set(reflect.ValueOf(resource.MustParse(pick(g.random, quantities))))
		return
	case timeType:
		v.Set(reflect.ValueOf(metav1.NewTime(g.moment())))
		return
	case microType:
		v.Set(reflect.ValueOf(metav1.NewMicroTime(g.moment())))
		return
	case durationType:
		v.Set(reflect.ValueOf(metav1.Duration{Duration: time.Duration(g.random.Int64N(200)-20) * time.Minute}))
		return
	case intOrStrType:
		v.Set(reflect.ValueOf(g.intOrString()))
		return
	case rawType:
		v.Set(reflect.ValueOf(runtime.RawExtension{Raw: []byte(pick(g.random, []string{`{"a":1}`, `{}`, `[]`, `1`}))}))
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		g.fill(v.Elem(), name, depth)
	case reflect.Struct:
		g.fillStruct(v, depth)
	case reflect.Slice:
		g.fillSlice(v, name, depth)
	case reflect.Map:
		g.fillMap(v, name, depth)
	case reflect.String:
		v.SetString(g.word(v.Type(), name))
	case reflect.Bool:
		v.SetBool(g.random.IntN(2) == 0)
	case reflect.Int, reflect.Int32, reflect.Int64:
		n := pick(g.random, numbers)
		if v.OverflowInt(n) {
			n = 1
		}
		v.SetInt(n)
	case reflect.Uint8, reflect.Uint32, reflect.Uint64:
		v.SetUint(uint64(g.random.IntN(200)))
	case reflect.Float64:
		v.SetFloat(float64(pick(g.random, numbers)))
	}
}

func (g *Values) fillStruct(v reflect.Value, depth int) {
	for i := range v.NumField() {
		f := v.Type().Field(i)
		if !f.IsExported() || excluded(v.Type(), f) {
			continue
		}
		optional := strings.Contains(f.Tag.Get("json"), "omitempty") || f.Type.Kind() == reflect.Pointer || f.Type.Kind() == reflect.Slice || f.Type.Kind() == reflect.Map
		if !optional || g.random.IntN(3+depth) == 0 && depth < 8 {
			g.fill(v.Field(i), f.Name, depth+1)
		}
	}
}

func (g *Values) fillSlice(v reflect.Value, name string, depth int) {
	if v.Type().Elem().Kind() == reflect.Uint8 {
		v.SetBytes([]byte(pick(g.random, bodies)))
		return
	}
	n := 1 + g.random.IntN(2)
	slice := reflect.MakeSlice(v.Type(), n, n)
	for i := range n {
		g.fill(slice.Index(i), name, depth+1)
	}
	v.Set(slice)
}

func (g *Values) fillMap(v reflect.Value, name string, depth int) {
	m := reflect.MakeMap(v.Type())
	for range 1 + g.random.IntN(2) {
		key := reflect.New(v.Type().Key()).Elem()
		if v.Type() == listType {
			key.SetString(pick(g.random, resources))
		} else {
			key.SetString(pick(g.random, keys))
		}
		value := reflect.New(v.Type().Elem()).Elem()
		g.fill(value, name, depth+1)
		m.SetMapIndex(key, value)
	}
	v.Set(m)
}

// word returns a string for a field: mostly one of its type's constants, if it has any.
func (g *Values) word(t reflect.Type, name string) string {
	if values := g.constants[t.PkgPath()+"."+t.Name()]; len(values) > 0 && g.random.IntN(8) > 0 {
		return pick(g.random, values)
	}
	if g.random.IntN(4) > 0 {
		longest := ""
		for suffix := range special {
			if strings.HasSuffix(name, suffix) && len(suffix) > len(longest) {
				longest = suffix
			}
		}
		if longest != "" {
			return pick(g.random, special[longest])
		}
	}
	return pick(g.random, words)
}

func (g *Values) moment() time.Time {
	at, err := time.Parse(time.RFC3339, pick(g.random, moments))
	if err != nil {
		panic(err)
	}
	return at
}

func (g *Values) intOrString() intstr.IntOrString {
	if g.random.IntN(2) == 0 {
		return intstr.FromInt32(int32(pick(g.random, []int64{0, 1, 2, 80, 65536, -1, 100})))
	}
	return intstr.FromString(pick(g.random, []string{"http", "50%", "150%", "-5%", "bad_name", "", "0%", "a%", "toolongportname-x", "123"}))
}

func pick[T any](random *rand.Rand, from []T) T { return from[random.IntN(len(from))] }

// decodes reports whether data is an object of the type of v, and sets v.
func decodes(data []byte, v any) bool { return json.Unmarshal(data, v) == nil }
