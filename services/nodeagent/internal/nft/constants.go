package nft

// The constants of linux/netlink.h and linux/netfilter/*.h that this package uses. They are the
// kernel's ABI. golang.org/x/sys has them for Linux only; here, the encoding is tested everywhere.

// Netlink messages and their flags.
const (
	nlmsgError = 2
	nlmsgDone  = 3

	flagRequest     = 0x1
	flagAck         = 0x4
	flagInterrupted = 0x10
	flagDump        = 0x300
	flagCreate      = 0x400
	flagAppend      = 0x800

	headerLength  = 16
	nestedFlag    = 0x8000
	attributeMask = 0x3fff
)

// Messages of nftables.
const (
	subsystem  = 10
	batchBegin = 0x10
	batchEnd   = 0x11

	msgNewTable   = subsystem << 8
	msgDelTable   = subsystem<<8 | 2
	msgNewChain   = subsystem<<8 | 3
	msgGetChain   = subsystem<<8 | 4
	msgDelChain   = subsystem<<8 | 5
	msgNewRule    = subsystem<<8 | 6
	msgGetRule    = subsystem<<8 | 7
	msgDelRule    = subsystem<<8 | 8
	msgNewSet     = subsystem<<8 | 9
	msgGetSet     = subsystem<<8 | 10
	msgDelSet     = subsystem<<8 | 11
	msgNewElement = subsystem<<8 | 12
	msgGetElement = subsystem<<8 | 13
	msgDelElement = subsystem<<8 | 14
	msgNewGen     = subsystem<<8 | 15
	msgGetGen     = subsystem<<8 | 16
)

// Families.
const (
	familyIPv4 = 2
	familyIPv6 = 10
)

// Attributes of tables, chains, rules and sets.
const (
	tableName     = 1
	tableUserdata = 6

	chainTable = 1
	chainName  = 3
	chainHook  = 4
	chainType  = 7

	hookNumber   = 1
	hookPriority = 2

	ruleTable       = 1
	ruleChain       = 2
	ruleExpressions = 4
	ruleUserdata    = 7

	setTable       = 1
	setName        = 2
	setFlags       = 3
	setKeyType     = 4
	setKeyLength   = 5
	setDataType    = 6
	setDataLength  = 7
	setDescription = 9
	setID          = 10
	setTimeout     = 11
	setUserdata    = 13

	setSize = 1

	listTable    = 1
	listSet      = 2
	listElements = 3
	listSetID    = 4

	listElement = 1

	elementKey   = 1
	elementData  = 2
	elementFlags = 3

	dataValue   = 1
	dataVerdict = 2

	verdictCode  = 1
	verdictChain = 2

	generationID = 1
)

// elementEnd is the flag of an element after the last one of a range.
const elementEnd = 0x1

// Flags and types of sets.
const (
	setAnonymous = 0x1
	setConstant  = 0x2
	setInterval  = 0x4
	setMap       = 0x8
	setTimeouts  = 0x10
	setDynamic   = 0x20

	dataIsVerdict = 0xffffff00

	typeInteger  = 4
	typeIPv4     = 7
	typeIPv6     = 8
	typeProtocol = 12
	typeService  = 13
	typeMark     = 19
	// typeBits is how far a type is shifted in that of a concatenation.
	typeBits = 6
)

// Verdicts.
const (
	codeDrop   = 0
	codeJump   = -3
	codeGoto   = -4
	codeReturn = -5
)

// Attributes of expressions.
const (
	expressionName = 1
	expressionData = 2

	immediateRegister = 1
	immediateData     = 2

	bitwiseSource = 1
	bitwiseTarget = 2
	bitwiseLength = 3
	bitwiseMask   = 4
	bitwiseXor    = 5

	compareRegister = 1
	compareOp       = 2
	compareData     = 3
	compareEqual    = 0
	compareNot      = 1

	lookupSet    = 1
	lookupSource = 2
	lookupTarget = 3
	lookupSetID  = 4
	lookupFlags  = 5
	lookupInvert = 1

	dynsetName   = 1
	dynsetOp     = 3
	dynsetKey    = 4
	dynsetUpdate = 1

	payloadTarget    = 1
	payloadBase      = 2
	payloadOffset    = 3
	payloadLength    = 4
	payloadNetwork   = 1
	payloadTransport = 2

	metaTarget    = 1
	metaKey       = 2
	metaSource    = 3
	metaMark      = 3
	metaInterface = 6
	metaProtocol  = 16

	ctTarget = 1
	ctKey    = 2
	ctState  = 0
	ctStatus = 2
	ctNew    = 0x8
	ctDNAT   = 0x20

	fibTarget   = 1
	fibResult   = 2
	fibFlags    = 3
	fibType     = 3
	fibSource   = 1
	fibDest     = 2
	routeLocal  = 2
	natType     = 1
	natFamily   = 2
	natAddress  = 3
	natPort     = 5
	natDest     = 1
	masqFlags   = 1
	fullyRandom = 0x10

	rejectType = 1
	rejectCode = 2
	rejectICMP = 0

	numgenTarget  = 1
	numgenModulus = 2
	numgenType    = 3
	numgenRandom  = 1
)

// Userdata is for the program nft, which shows rules by it.
const (
	// userdataComment is the type of a rule's comment.
	userdataComment = 0
	// userdataOrder is the type of the byte order of a set's keys, orderNative that of registers.
	userdataOrder = 0
	orderNative   = 1
)

// registerVerdict is where a verdict goes. Values go to the registers of 4 bytes from register on.
const (
	registerVerdict = 0
	register        = 8
)
