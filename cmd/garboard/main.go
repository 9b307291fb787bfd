// Command garboard is the whole plane in one program. `garboard up` runs it, `garboard kubectl`
// talks to it, and `garboard trace` shows the hops of a change. `garboard watch` streams changes
// from NATS, `garboard doctor` diagnoses problems, `garboard watchers` shows which informers lag,
// and `garboard snapshot` saves the content of etcd.
package main

import (
	"os"

	"github.com/spf13/cobra"

	"github.com/garboard/garboard/libs/daemon"
)

// version is set by the linker.
var version = "unknown"

func main() {
	if len(os.Args) > 1 && os.Args[1] == "kubectl" {
		runKubectl(os.Args[2:])
		return
	}
	root := &cobra.Command{
		Use: "garboard", Short: "The Kubernetes API on a NATS nervous system", Version: version,
		SilenceErrors: true, SilenceUsage: true,
	}
	daemon.SayVersion(root)
	root.AddCommand(upCommand(), kubectlCommand(), traceCommand(), watchCommand(), snapshotCommand(),
		watchersCommand(), doctorCommand(), initCommand(), tokenCommand())
	os.Exit(daemon.Main(root))
}
