package api_test

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/services/apiserver/internal/test/harness"
)

// call is a request and Kubernetes' response to it. Empty patterns are not checked.
type call struct {
	name, method, path, contentType, accept, body string

	code    int
	answer  string // a pattern of the body
	warning string // a pattern of the only warning; empty for no warning
}

// TestConformance compares responses with those of Kubernetes' own handlers, which were recorded
// from a server built from k8s.io/apiserver.
func TestConformance(t *testing.T) {
	t.Parallel()
	s := harness.Start(t)
	const (
		owners = `"ownerReferences":[{"apiVersion":"v1","kind":"Pod","name":"p","uid":"a"},{"apiVersion":"v1","kind":"Pod","name":"p","uid":"a"}]`
		kept   = `"ownerReferences":\[\{"apiVersion":"v1","kind":"Pod","name":"p","uid":"a"\}\]`
		twice  = `^299 - "\.metadata\.ownerReferences contains duplicate entries; API server dedups owner references in 1\.20\+, and may reject such requests as early as 1\.24; please fix your requests; duplicate UID\(s\) observed: a"$`
		theirs = `{"metadata":{"name":"theirs"}}`
		gone   = `"status":"Success"`
		beta   = ";g=meta.k8s.io;v=v1beta1"
	)
	calls := []call{
		{name: "the object", method: "POST", path: configMaps, contentType: asJSON, body: `{"metadata":{"name":"theirs","labels":{"of":"them"}}}`, code: 201},

		// Timeouts.
		{name: "a malformed duration", method: "GET", path: theMap + "?timeout=abc", code: 400, answer: `"message":"invalid timeout specified in the request URL - time: invalid duration \\"abc\\"","reason":"BadRequest"`},
		{name: "a malformed duration of a write", method: "POST", path: configMaps + "?timeout=7", contentType: asJSON, body: theirs, code: 400, answer: `time: missing unit in duration`},
		{name: "a duration", method: "GET", path: theMap + "?timeout=32s", code: 200},
		{name: "a zero duration", method: "GET", path: theMap + "?timeout=0s", code: 200},
		{name: "a negative duration", method: "GET", path: theMap + "?timeout=-1s", code: 200},
		{name: "a long duration", method: "GET", path: theMap + "?timeout=1000h", code: 200},
		{name: "a watch with a negative timeout", method: "GET", path: configMaps + "?watch=1&labelSelector=none&timeoutSeconds=-1", code: 200, answer: `^$`},

		// Methods and formats.
		{name: "an unknown method", method: "POST", path: theMap, contentType: asJSON, body: theirs, code: 405,
			answer: `"message":"the server does not allow this method on the requested resource","reason":"MethodNotAllowed","details":\{\},"code":405`},
		{name: "an old table", method: "GET", path: theMap, accept: asJSON + ";as=Table" + beta, code: 200, answer: `^\{"kind":"Table","apiVersion":"meta\.k8s\.io/v1beta1".*"object":\{"kind":"PartialObjectMetadata","apiVersion":"meta\.k8s\.io/v1beta1"`},
		{name: "an old table of a list", method: "GET", path: configMaps, accept: asJSON + ";as=Table" + beta, code: 200, answer: `^\{"kind":"Table","apiVersion":"meta\.k8s\.io/v1beta1"`},
		{name: "a table", method: "GET", path: theMap, accept: inTables, code: 200, answer: `^\{"kind":"Table","apiVersion":"meta\.k8s\.io/v1",.*"object":\{"kind":"PartialObjectMetadata","apiVersion":"meta\.k8s\.io/v1",`},
		{name: "old metadata", method: "GET", path: theMap, accept: asJSON + ";as=PartialObjectMetadata" + beta, code: 200, answer: `^\{"kind":"PartialObjectMetadata","apiVersion":"meta\.k8s\.io/v1beta1"`},
		{name: "old metadata of a list", method: "GET", path: configMaps, accept: asJSON + ";as=PartialObjectMetadataList" + beta, code: 200,
			answer: `^\{"kind":"PartialObjectMetadataList","apiVersion":"meta\.k8s\.io/v1beta1".*\{"kind":"PartialObjectMetadata","apiVersion":"meta\.k8s\.io/v1beta1"`},
		{name: "old metadata of a watch", method: "GET", path: configMaps + "?watch=1&timeoutSeconds=6&labelSelector=of", accept: asJSON + ";as=PartialObjectMetadata" + beta, code: 200,
			answer: `"object":\{"kind":"PartialObjectMetadata","apiVersion":"meta\.k8s\.io/v1beta1"`},
		{name: "a table of an unknown version", method: "GET", path: theMap, accept: asJSON + ";as=Table;g=meta.k8s.io;v=v2", code: 406},
		{name: "an unknown includeObject", method: "GET", path: theMap + "?includeObject=Bogus", accept: inTables, code: 400,
			answer: `"message":"Unable to convert to Table as requested: includeObject: Invalid value: \\"Bogus\\": must be 'Metadata', 'Object', 'None', or empty"`},
		{name: "a watch in HTML", method: "GET", path: configMaps + "?watch=1", accept: "text/html", code: 406, answer: `application/json;stream=watch, application/vnd\.kubernetes\.protobuf;stream=watch`},
		{name: "an export", method: "GET", path: theMap + "?export=true", code: 400, answer: `"message":"the export parameter, deprecated since v1\.14, is no longer supported"`},
		{name: "no export", method: "GET", path: theMap + "?export=false", code: 200},
		{name: "a watch that continues", method: "GET", path: configMaps + "?watch=1&continue=x&timeoutSeconds=1", code: 422,
			answer: `resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden when continue is provided`},

		// Kinds, names and namespaces.
		{name: "another kind", method: "POST", path: configMaps, contentType: asJSON, body: `{"apiVersion":"v1","kind":"Secret","metadata":{"name":"new"}}`, code: 400,
			answer: `"message":"Secret in version \\"v1\\" cannot be handled as a ConfigMap: converting \(v1\.Secret\) to \(core\.ConfigMap\): unknown conversion"`},
		{name: "another group", method: "POST", path: deployments, contentType: asJSON, body: `{"apiVersion":"batch/v1","kind":"Job","metadata":{"name":"new"}}`, code: 400,
			answer: `converting \(v1\.Job\) to \(apps\.Deployment\): unknown conversion`},
		{name: "another group's event", method: "POST", path: "/api/v1/namespaces/default/events", contentType: asJSON, body: `{"apiVersion":"events.k8s.io/v1","kind":"Event","metadata":{"name":"new"}}`, code: 400,
			answer: `the API version in the data \(events\.k8s\.io/v1\) does not match the expected API version \(v1\)`},
		{name: "a PUT without a name", method: "PUT", path: theMap, contentType: asJSON, body: `{"metadata":{}}`, code: 400,
			answer: `"message":"the name of the object \(theirs based on URL\) was undeterminable: name must be provided"`},
		{name: "a PUT of another name", method: "PUT", path: theMap, contentType: asJSON, body: `{"metadata":{"name":"ours"}}`, code: 400, answer: `the name of the object \(ours\) does not match the name on the URL \(theirs\)`},
		{name: "a PUT into another namespace", method: "PUT", path: theMap, contentType: asJSON, body: `{"metadata":{"name":"theirs","namespace":"other"}}`, code: 400,
			answer: `"message":"the namespace of the provided object does not match the namespace sent on the request"`},
		{name: "a PUT of another UID", method: "PUT", path: theMap, contentType: asJSON, body: `{"metadata":{"name":"theirs","uid":"u"}}`, code: 409, answer: `Precondition failed: UID in precondition: u, UID in object meta: `},
		{name: "a PUT of a deletion timestamp", method: "PUT", path: theMap, contentType: asJSON, body: `{"metadata":{"name":"theirs","deletionTimestamp":"2020-01-01T00:00:00Z"}}`, code: 422,
			answer: `metadata\.deletionTimestamp: Invalid value: \\"2020-01-01T00:00:00Z\\": field is immutable`},
		{name: "a patch of the name", method: "PATCH", path: theMap, contentType: mergePatch, body: `{"metadata":{"name":"ours"}}`, code: 400, answer: `the name of the object \(ours\) does not match the name on the URL \(theirs\)`},
		{name: "a patch without the name", method: "PATCH", path: theMap, contentType: mergePatch, body: `{"metadata":null}`, code: 400, answer: `\(theirs based on URL\) was undeterminable: name must be provided`},
		{name: "a patch of the namespace", method: "PATCH", path: theMap, contentType: strategic, body: `{"metadata":{"namespace":"other"}}`, code: 400, answer: `"message":"the namespace of the provided object does not match`},
		{name: "a patch of the UID", method: "PATCH", path: theMap, contentType: strategic, body: `{"metadata":{"uid":"u"}}`, code: 422, answer: `metadata\.uid: Invalid value: \\"u\\": field is immutable`},
		{name: "a patch of the deletion timestamp", method: "PATCH", path: theMap, contentType: mergePatch, body: `{"metadata":{"deletionTimestamp":"2020-01-01T00:00:00Z"}}`, code: 422, answer: `metadata\.deletionTimestamp: Invalid value`},

		// Duplicate owners.
		{name: "a POST with an owner twice", method: "POST", path: configMaps + "?dryRun=All", contentType: asJSON, body: `{"metadata":{"name":"new",` + owners + `}}`, code: 201, answer: kept, warning: twice},
		{name: "a PUT with an owner twice", method: "PUT", path: theMap + "?dryRun=All", contentType: asJSON, body: `{"metadata":{"name":"theirs",` + owners + `}}`, code: 200, answer: kept, warning: twice},
		{name: "a patch with an owner twice", method: "PATCH", path: theMap + "?dryRun=All", contentType: mergePatch, body: `{"metadata":{` + owners + `}}`, code: 200, answer: kept,
			warning: strings.Replace(twice, "entries;", "entries after mutating admission happens;", 1)},

		// The options of a deletion, which may be of any version.
		{name: "options without a version", method: "DELETE", path: theMap, contentType: asJSON, body: `{"dryRun":["All"]}`, code: 200, answer: gone},
		{name: "options of v1", method: "DELETE", path: theMap, contentType: asJSON, body: `{"kind":"DeleteOptions","apiVersion":"v1","dryRun":["All"]}`, code: 200, answer: gone},
		{name: "options of their own group", method: "DELETE", path: theMap, contentType: asJSON, body: `{"kind":"DeleteOptions","apiVersion":"meta.k8s.io/v1","dryRun":["All"]}`, code: 200, answer: gone},
		{name: "options of another group", method: "DELETE", path: theMap, contentType: asYAML, body: "kind: DeleteOptions\napiVersion: apps/v1\ndryRun: [All]\n", code: 200, answer: gone},
		{name: "options of an unknown version", method: "DELETE", path: theMap, contentType: asJSON, body: `{"kind":"DeleteOptions","apiVersion":"v2","dryRun":["All"]}`, code: 200, answer: gone},
		{name: "options of an unknown group", method: "DELETE", path: configMaps + "?labelSelector=of", contentType: asJSON, body: `{"kind":"DeleteOptions","apiVersion":"foo/v1","dryRun":["All"]}`, code: 200, answer: `"kind":"ConfigMapList"`},
		{name: "options of another kind", method: "DELETE", path: theMap, contentType: asJSON, body: `{"kind":"ConfigMap","apiVersion":"v1"}`, code: 400, answer: `"message":"no kind \\"ConfigMap\\" is registered for version \\"v1\\" in scheme`},
		{name: "options of a wrong type", method: "DELETE", path: theMap, contentType: asJSON, body: `{"gracePeriodSeconds":"x"}`, code: 400,
			answer: `"message":"json: cannot unmarshal string into Go struct field DeleteOptions\.gracePeriodSeconds of type int64"`},
		{name: "malformed options", method: "DELETE", path: theMap, contentType: asJSON, body: `x`, code: 400, answer: `"message":"couldn't get version/kind; json parse error: invalid character 'x' looking for beginning of value"`},
		{name: "the object still exists", method: "GET", path: theMap, code: 200},
	}
	for _, c := range calls {
		t.Run(c.name, func(t *testing.T) {
			header := map[string]string{"Accept": asJSON}
			if c.accept != "" {
				header["Accept"] = c.accept
			}
			if c.contentType != "" {
				header["Content-Type"] = c.contentType
			}
			res, body := s.Exchange(s.Admin(), c.method, c.path, c.body, header)
			if res.StatusCode != c.code || !regexp.MustCompile(`(?s)`+c.answer).MatchString(body) {
				t.Errorf("got %d\n%s\nwant %d\n%s", res.StatusCode, brief(body), c.code, c.answer)
			}
			if c.code >= 400 {
				var status metav1.Status
				if err := json.Unmarshal([]byte(body), &status); err != nil || int(status.Code) != c.code || status.Status != metav1.StatusFailure {
					t.Errorf("the response is not a Status of %d: %v\n%s", c.code, err, brief(body))
				}
			}
			warnings := strings.ReplaceAll(strings.Join(res.Header.Values("Warning"), "\n"), `\"`, `"`)
			if c.warning == "" && warnings != "" || !regexp.MustCompile(c.warning).MatchString(warnings) {
				t.Errorf("got warnings %q, want %s", warnings, c.warning)
			}
		})
	}
}
