/**
 * Short common English words. With a space before it each is one token in nearly every vocabulary, so text made of them
 * has about as many tokens as words.
 */
export const WORDS: readonly string[] = (
  'about above across act add after again age ago air all along also always among and animal answer any appear area ask ' +
  'away back ball bank base bear beat bed before begin behind best better between big bird black blood blue board boat ' +
  'body book both box boy bring brother build busy but buy call came can car care carry case catch cause center century ' +
  'certain chance change check child choose church circle city class clean clear close cold color come common company ' +
  'contain control cook cool copy corn corner cost could country course cover cross cry current cut dance dark day dead ' +
  'deal dear deep design did differ direct do doctor does dog done door down draw dream dress drive drop dry during each ' +
  'early earth east easy eat edge effect egg eight either end energy engine enough enter equal even evening event ever ' +
  'every example eye face fact fall family far farm fast father fear feed feel feet few field fight figure fill final ' +
  'find fine finger finish fire first fish fit five flat floor flow fly follow food foot for force form four free fresh ' +
  'friend from front fruit full fun game garden gave general get girl give glad glass go gold gone good got govern grand ' +
  'grass gray great green ground group grow half hand happen happy hard has hat have he head hear heart heat heavy held ' +
  'help her here high hill him his history hold home hope horse hot hour house how human idea if in island job join jump ' +
  'just keep key kind king know land language large last late laugh law lay lead learn least leave left less let letter ' +
  'level lie life light like line list listen little live long look lost lot loud love low machine made main make man ' +
  'many map mark market matter may mean measure meet men metal method middle might mile milk mind minute miss moment ' +
  'money month moon more morning most mother mountain mouth move much music must name near need never new next night nine'
).split(' ');
