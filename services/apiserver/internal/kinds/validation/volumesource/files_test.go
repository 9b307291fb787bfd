package volumesource

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/garboard/garboard/services/apiserver/internal/kinds/validation/errortest"
)

// check compares the errors of a volume with those that Kubernetes has for it.
func check(t *testing.T, source corev1.VolumeSource, want ...string) {
	t.Helper()
	errortest.Exactly(t, Volume(&corev1.Volume{Name: "data", VolumeSource: source}, "web", field.NewPath("v")), want...)
}

const badMode = "must be a number between 0 and 0777 (octal), both inclusive"

const subdomain = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an " +
	"alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"

func TestHostPath(t *testing.T) {
	for _, tc := range []struct {
		name string
		path corev1.HostPathVolumeSource
		want []string
	}{
		{"any type", corev1.HostPathVolumeSource{Path: "/a", Type: new(corev1.HostPathUnset)}, nil},
		{"a relative path, a name with dots", corev1.HostPathVolumeSource{Path: "a/..b/c..", Type: new(corev1.HostPathBlockDev)}, nil},
		{"no path, nothing else is checked", corev1.HostPathVolumeSource{Type: new(corev1.HostPathType("Odd"))}, []string{
			"v.hostPath.path: Required value",
		}},
		{"a step back", corev1.HostPathVolumeSource{Path: "/a/../b"}, []string{`v.hostPath.path: Invalid value: "/a/../b": must not contain '..'`}},
		{"an unknown type", corev1.HostPathVolumeSource{Path: "/a", Type: new(corev1.HostPathType("directory"))}, []string{
			`v.hostPath.type: Unsupported value: "directory": supported values: "", "BlockDevice", "CharDevice", "Directory", ` +
				`"DirectoryOrCreate", "File", "FileOrCreate", "Socket"`,
		}},
	} {
		t.Run(tc.name, func(t *testing.T) { check(t, corev1.VolumeSource{HostPath: &tc.path}, tc.want...) })
	}
}

func TestNFS(t *testing.T) {
	check(t, corev1.VolumeSource{NFS: &corev1.NFSVolumeSource{Server: "s", Path: "/a/../b"}})
	check(t, corev1.VolumeSource{NFS: &corev1.NFSVolumeSource{}},
		"v.nfs.server: Required value", "v.nfs.path: Required value", `v.nfs.path: Invalid value: "": must be an absolute path`)
}

func TestEmptyDirSize(t *testing.T) {
	check(t, corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{SizeLimit: new(resource.MustParse("0"))}})
}

// TestKeys checks the modes and the paths of the files that a volume makes of a secret's keys.
func TestKeys(t *testing.T) {
	file := func(path string, mode int32) []corev1.KeyToPath {
		return []corev1.KeyToPath{{Key: "k", Path: "good"}, {Key: "k", Path: path, Mode: &mode}}
	}
	at := "v.secret.items[1]"
	for _, tc := range []struct {
		name  string
		items []corev1.KeyToPath
		want  []string
	}{
		{"least mode, a directory with dots", file("..data/a", 0), []string{at + `.path: Invalid value: "..data/a": must not start with '..'`}},
		{"greatest mode, dots inside", file("a/..data", 0o777), nil},
		{"mode too small", file("a", -1), []string{at + ".mode: Invalid value: -1: " + badMode}},
		{"mode too great", file("a", 0o1000), []string{at + ".mode: Invalid value: 512: " + badMode}},
		{"an absolute path", file("/a", 0), []string{at + `.path: Invalid value: "/a": must be a relative path`}},
		{"a step back is one error", file("../a", 0), []string{at + `.path: Invalid value: "../a": must not contain '..'`}},
		{"only a step back is two", file("..", 0), []string{
			at + `.path: Invalid value: "..": must not contain '..'`, at + `.path: Invalid value: "..": must not start with '..'`,
		}},
		{"neither key nor path", []corev1.KeyToPath{{Key: "k", Path: "a"}, {}}, []string{at + ".key: Required value", at + ".path: Required value"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			check(t, corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "s", Items: tc.items}}, tc.want...)
		})
	}
}

// TestModes checks the default mode of each volume whose files the node agent writes.
func TestModes(t *testing.T) {
	mode := new(int32(0o1000))
	bad := ".defaultMode: Invalid value: 512: " + badMode
	key := []corev1.KeyToPath{{}}
	check(t, corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{DefaultMode: mode}}, "v.secret.secretName: Required value", "v.secret"+bad)
	check(t, corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{DefaultMode: mode, Items: key}}, "v.configMap.name: Required value",
		"v.configMap"+bad, "v.configMap.items[0].key: Required value", "v.configMap.items[0].path: Required value")
	check(t, corev1.VolumeSource{DownwardAPI: &corev1.DownwardAPIVolumeSource{DefaultMode: mode}}, "v.downwardAPI"+bad)
	check(t, corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{DefaultMode: mode}}, "v.projected"+bad)
}

// TestDownward checks files with fields and resources of the pod. The path of an error does not name
// the file.
func TestDownward(t *testing.T) {
	name := &corev1.ObjectFieldSelector{APIVersion: "v1", FieldPath: "metadata.name"}
	limit := &corev1.ResourceFieldSelector{ContainerName: "c", Resource: "limits.cpu"}
	for _, tc := range []struct {
		name string
		file corev1.DownwardAPIVolumeFile
		want []string
	}{
		{"a field", corev1.DownwardAPIVolumeFile{Path: "a", FieldRef: name, Mode: new(int32(0o777))}, nil},
		{"a resource", corev1.DownwardAPIVolumeFile{Path: "a", ResourceFieldRef: limit}, nil},
		{"nothing", corev1.DownwardAPIVolumeFile{Mode: new(int32(-1))}, []string{
			"v.downwardAPI.path: Required value", "v.downwardAPI: Required value: one of fieldRef and resourceFieldRef is required",
			"v.downwardAPI.mode: Invalid value: -1: " + badMode,
		}},
		{"both", corev1.DownwardAPIVolumeFile{Path: "../a", FieldRef: name, ResourceFieldRef: &corev1.ResourceFieldSelector{}}, []string{
			`v.downwardAPI.path: Invalid value: "../a": must not contain '..'`,
			`v.downwardAPI: Invalid value: "resource": fieldRef and resourceFieldRef can not be specified simultaneously`,
		}},
		{"a field that only variables have", corev1.DownwardAPIVolumeFile{Path: "a", FieldRef: &corev1.ObjectFieldSelector{
			APIVersion: "v1", FieldPath: "spec.nodeName",
		}}, []string{
			`v.downwardAPI.fieldRef.fieldPath: Unsupported value: "spec.nodeName": supported values: ` +
				`"metadata.annotations", "metadata.labels", "metadata.name", "metadata.namespace", "metadata.uid"`,
		}},
		{"a resource of no container", corev1.DownwardAPIVolumeFile{Path: "a", ResourceFieldRef: &corev1.ResourceFieldSelector{}}, []string{
			"v.downwardAPI.resourceFieldRef.containerName: Required value",
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			check(t, corev1.VolumeSource{DownwardAPI: &corev1.DownwardAPIVolumeSource{Items: []corev1.DownwardAPIVolumeFile{tc.file}}}, tc.want...)
		})
	}
}
