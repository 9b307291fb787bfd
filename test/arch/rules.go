package arch

import (
	"slices"
	"strings"
)

// refusedNames are meaningless package names, in the singular.
var refusedNames = []string{"util", "common", "helper", "type", "manager", "misc", "base", "shared"}

// contracts maps packages that declare a contract between two services to those services. Both must
// use the package, so that neither keeps its own declaration.
var contracts = map[string][]string{
	"libs/nodeapi": {"services/apiserver", "services/nodeagent"},
}

// sleepers are test functions, with their folder, that sleep although checkSleeps cannot tell that
// they run in a bubble: informers call them, and tests create those informers in bubbles only.
var sleepers = []string{
	"libs/informer/reconcile Apply",
	"services/controllers Apply",
	"services/controllers Replace",
}

// rule denies an import to all folders except some.
type rule struct {
	// deny has import path prefixes.
	deny []string
	// except has folders, including those below them, that may import them anyway.
	except []string
	// tests allows test files anywhere to import them, too.
	tests bool
	// why is the reason, reported with each violation.
	why string
}

// rules is the table of import rules from DESIGN.
var rules = []rule{
	{
		deny: []string{"go.etcd.io/etcd/client", "go.etcd.io/etcd/api"},
		except: []string{
			"services/apiserver/internal/storage/election", "services/apiserver/internal/storage/etcd", "services/apiserver/internal/storage/store",
			"test", "bench",
		},
		why: "only the apiserver's storage packages talk to etcd",
	},
	{
		deny:   []string{"go.etcd.io/etcd/server"},
		except: []string{"services/standalone", "services/apiserver/internal/storage/store/etcdtest", "test", "bench"},
		why:    "etcd's server is linked only into the standalone process and tests",
	},
	{
		deny:   []string{"github.com/nats-io/"},
		except: []string{"libs/bus"},
		why:    "NATS is known only to libs/bus",
	},
	{
		deny: []string{"k8s.io/cri-api"},
		except: []string{
			"services/nodeagent/internal/runtime", "services/nodeagent/internal/simulated", "test", "test/containers", "bench/streams",
		},
		why: "the container runtime's interface is known only to the node agent's runtime packages",
	},
	{
		deny:   []string{"github.com/miekg/dns"},
		except: []string{"services/nodeagent/internal/dns", "test/upstream"},
		why:    "the DNS library is known only to the node agent's DNS server",
	},
	{
		deny:   []string{"k8s.io/kubectl", "k8s.io/cli-runtime"},
		except: []string{"cmd/garboard", "test"},
		why:    "kubectl is linked only into cmd/garboard",
	},
	{
		deny:   []string{"helm.sh/helm"},
		except: []string{"test"},
		why:    "Helm is a user of the plane; only the tests act as users",
	},
	{
		deny:   []string{"github.com/spf13/cobra", "github.com/spf13/pflag"},
		except: []string{"cmd", "libs/daemon"},
		why:    "flags live in cmd and libs/daemon; a service has a Config",
	},
	{
		deny: []string{"k8s.io/kubernetes", "k8s.io/apiserver/", "github.com/gorilla/mux", "github.com/gin-gonic/gin"},
		// Packages of k8s.io/apiserver that are libraries, as docs/adr/0006-apiserver-libraries.md
		// lists them.
		except: []string{
			"services/apiserver/internal/admission/attributes", "services/apiserver/internal/admission/policies",
			"services/apiserver/internal/admission/webhooks",
			"services/apiserver/internal/kinds/admissionregistration",
			"services/controllers/internal/validatingpolicystatus",
			"services/nodeagent/internal/server",
			"services/apiserver/internal/http/audit", "services/apiserver/internal/server/routes/zpages", "services/apiserver/internal/kinds/apiextensions", "services/apiserver/internal/kinds/custom",
			// The oracles below test/upstream and the conformance suite are modules of their own.
			"test/upstream", "test/conformance/suite",
		},
		why: "Garboard implements this itself",
	},
	{
		deny:   []string{"k8s.io/klog", "github.com/sirupsen/logrus", "go.uber.org/zap"},
		except: []string{"libs/daemon", "services/standalone", "services/apiserver/internal/storage/etcd"},
		why:    "services log with slog; only these bridge the libraries that do not",
	},
}

func (r rule) broken(s source, imported string) bool {
	return r.denies(s, imported) && !slices.ContainsFunc(r.except, func(dir string) bool { return below(s.dir, dir) })
}

// denies reports whether the rule denies an import, ignoring its exceptions.
func (r rule) denies(s source, imported string) bool {
	if r.tests && s.test {
		return false
	}
	return slices.ContainsFunc(r.deny, func(prefix string) bool { return below(imported, strings.TrimSuffix(prefix, "/")) })
}

// below reports whether path is dir or below it.
func below(path, dir string) bool { return path == dir || strings.HasPrefix(path, dir+"/") }

// StaleExceptions returns the exceptions to the rules that nothing needs any more. They must be
// removed, so that no new code uses them.
func StaleExceptions(root string) ([]Violation, error) {
	sources, err := read(root)
	if err != nil {
		return nil, err
	}
	var found []Violation
	for _, r := range rules {
		for _, dir := range r.except {
			needed := slices.ContainsFunc(sources, func(s source) bool {
				return below(s.dir, dir) && slices.ContainsFunc(s.imports, func(imported string) bool { return r.denies(s, imported) })
			})
			if !needed {
				found = append(found, Violation{dir, "is a stale exception to the rule: " + r.why})
			}
		}
	}
	found = append(found, staleClientGo(sources)...)
	found = append(found, staleGeneric(sources)...)
	found = append(found, staleLeaky(sources)...)
	found = append(found, staleColumns(sources)...)
	found = append(found, staleFunctions(sources)...)
	found = append(found, staleCallers(sources)...)
	found = append(found, staleTested(sources)...)
	sleeping, err := staleSleepers(root, sources)
	if err != nil {
		return nil, err
	}
	asserting, err := staleAssertable(root, sources)
	if err != nil {
		return nil, err
	}
	return slices.Concat(found, sleeping, asserting), nil
}
